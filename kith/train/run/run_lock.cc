#include "kith/train/run/run_lock.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/host_name.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

std::string holder_line() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 64> since{};
  std::strftime(since.data(), since.size(), "%Y-%m-%d %H:%M:%S %z", &parts);
  return cat("process ", ::getpid(), " on ", host_name(), " since ", since.data());
}

std::string read_holder(int file) {
  std::array<char, 512> text{};
  const ssize_t count = ::pread(file, text.data(), text.size(), 0);
  if (count <= 0) return "another process";
  return {text.data(), static_cast<std::size_t>(count)};
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kFileName;
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  if (file_ < 0) throw Error(cat("cannot be opened: ", std::strerror(errno)), path.string());
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return;
    const std::string holder = read_holder(file_);
    ::close(file_);
    throw InputError(cat("is in use by ", holder), folder.string(), "wait until it ends, or stop it");
  }
  // For the message alone: a full disk does not matter here.
  const std::string line = holder_line();
  if (::ftruncate(file_, 0) == 0) static_cast<void>(::pwrite(file_, line.data(), line.size(), 0) > 0);
}

RunLock::~RunLock() {
  ::close(file_);
}

}  // namespace kith::train
