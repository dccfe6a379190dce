#include "kith/launch/secret.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/sha256.h"
#include "kith/base/text.h"

namespace kith::launch {
namespace {

constexpr std::size_t kMostBytes = 4096;

class File {
 public:
  File(const std::filesystem::path& path, int flags, mode_t mode = 0)
      : fd_(::open(path.c_str(), flags, mode)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

std::string octal(mode_t mode) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777));
  return text.data();
}

}  // namespace

std::string make_secret() {
  return hex(random_bytes(32));
}

std::string read_secret(const std::filesystem::path& file, const std::string& place) {
  const std::string where = cat(place, " ", file.string());
  const File in(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (in.fd() < 0 || ::fstat(in.fd(), &status) != 0)
    throw InputError(cat("cannot be read: ", std::strerror(errno)), where,
                     "name the file that holds the run secret");
  if (!S_ISREG(status.st_mode)) throw InputError("is not a plain file", where);
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    throw InputError(cat("belongs to user ", status.st_uid), where, "it must be your own");
  if ((status.st_mode & 077) != 0) {
    throw InputError(cat("has mode ", octal(status.st_mode), ": others may use it"), where,
                     cat("chmod 600 ", file.string()));
  }
  std::string text(kMostBytes + 1, '\0');
  const ssize_t got = ::read(in.fd(), text.data(), text.size());
  if (got < 0) throw InputError(cat("cannot be read: ", std::strerror(errno)), where);
  text.resize(static_cast<std::size_t>(got));
  if (text.size() > kMostBytes) throw InputError(cat("is longer than ", kMostBytes, " bytes"), where);
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  if (text.empty()) throw InputError("is empty", where, "for example: head -c 32 /dev/urandom | base64");
  return text;
}

void write_secret(const std::filesystem::path& file, const std::string& secret) {
  const File out(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (out.fd() < 0 || ::write(out.fd(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size()))
    throw Error(cat("cannot be written: ", std::strerror(errno)), file.string());
}

}  // namespace kith::launch
