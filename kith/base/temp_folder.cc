#include "kith/base/temp_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".lock";
constexpr std::size_t kDrawn = 6;  // letters that mkdtemp draws

std::string lock_of(const std::string& folder) {
  return folder + std::string(kSuffix);
}

// The lock file of the folder, held by this process; -1 on a file system without locks. It gets its name when
// it is held already, so that nobody takes it for one whose owner is gone.
int hold_lock(const std::string& folder) {
  const std::string aside = folder + "/.lock";
  const int fd = ::open(aside.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return -1;
  if (::flock(fd, LOCK_EX) == 0 && ::rename(aside.c_str(), lock_of(folder).c_str()) == 0) return fd;
  ::unlink(aside.c_str());
  ::close(fd);
  return -1;
}

bool is_lock(const std::string& name, std::string_view prefix) {
  return name.size() == prefix.size() + 1 + kDrawn + kSuffix.size() && name.starts_with(prefix) &&
         name[prefix.size()] == '-' && name.ends_with(kSuffix);
}

// Removes what belongs to the lock file when nobody holds it, and it is this user's.
void remove_abandoned(const fs::path& lock) {
  const int fd = ::open(lock.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;
  struct stat file {};
  const bool own = ::fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size == 0 &&
                   file.st_uid == ::geteuid() && (file.st_mode & 0777) == 0600;
  if (own && ::flock(fd, LOCK_EX | LOCK_NB) == 0) {
    std::error_code ignored;
    fs::remove_all(fs::path(lock).replace_extension(), ignored);
    fs::remove(lock, ignored);
  }
  ::close(fd);
}

void remove_abandoned(const fs::path& parent, std::string_view prefix) {
  std::error_code ignored;
  for (fs::directory_iterator entry(parent, ignored), end; entry != end; entry.increment(ignored)) {
    if (ignored) return;
    if (is_lock(entry->path().filename().string(), prefix)) remove_abandoned(entry->path());
  }
}

}  // namespace

TempFolder::TempFolder(std::string_view prefix) {
  const fs::path parent = fs::temp_directory_path();
  remove_abandoned(parent, prefix);
  path_ = (parent / cat(prefix, "-XXXXXX")).string();
  if (::mkdtemp(path_.data()) == nullptr) {
    throw Error(cat("cannot create a folder: ", std::strerror(errno)), path_,
                "set TMPDIR to a writable folder");
  }
  lock_ = hold_lock(path_);
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (lock_ < 0) return;
  fs::remove(lock_of(path_), ignored);
  ::close(lock_);
}

}  // namespace kith
