#include "kith/comm/file_store.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/counter_text.h"

namespace kith::comm {
namespace {

// Excludes other threads and processes: every holder has a file description of its own.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder)
      : fd_(::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    int status = -1;
    if (fd_ >= 0) {
      do {
        status = ::flock(fd_, LOCK_EX);
      } while (status != 0 && errno == EINTR);
    }
    if (status == 0) return;
    const int reason = errno;
    if (fd_ >= 0) ::close(fd_);
    throw Error(cat("cannot lock: ", std::strerror(reason)), cat("store ", (folder / ".lock").string()),
                "check that the folder exists, is writable, and is on a file system with flock");
  }
  ~FolderLock() { ::close(fd_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  const int fd_;
};

}  // namespace

FileStore::FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  if (failure) {
    throw Error(cat("cannot create the folder: ", failure.message()), cat("store ", folder_.string()),
                "choose a folder that this user may write to");
  }
}

// Letters, digits, '-' and '_' stand for themselves, the rest for %XX, after a letter so that no key names a
// hidden file. Distinct keys give distinct names.
std::filesystem::path FileStore::file_of(std::string_view key) const {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string name = "k";
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || c == '-' || c == '_') {
      name += c;
    } else {
      name.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return folder_ / name;
}

void FileStore::replace(std::string_view key, std::string_view value) {
  const std::filesystem::path aside = folder_ / ".writing";
  std::ofstream out(aside, std::ios::binary | std::ios::trunc);
  out.write(value.data(), static_cast<std::streamsize>(value.size()));
  out.close();
  std::error_code failure;
  if (out) std::filesystem::rename(aside, file_of(key), failure);
  if (!out || failure) {
    throw Error(cat("cannot write key '", key, "'"), cat("store ", folder_.string()),
                "check the free space and the permissions of the folder");
  }
}

void FileStore::set(std::string_view key, std::string_view value) {
  const FolderLock lock(folder_);
  replace(key, value);
}

std::optional<std::string> FileStore::get(std::string_view key) {
  std::ifstream in(file_of(key), std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::optional<std::string> FileStore::wait(std::string_view key, Deadline deadline) {
  using std::chrono::milliseconds;
  // Asking again costs an open of a missing file; between machines no notification would tell.
  for (Clock::Duration pause = milliseconds(1);;
       pause = std::min<Clock::Duration>(2 * pause, milliseconds(50))) {
    if (auto value = get(key)) return value;
    const Clock::Time now = SteadyClock().now();
    if (now >= deadline) return std::nullopt;
    std::this_thread::sleep_until(std::min(deadline, now + pause));
  }
}

std::int64_t FileStore::add(std::string_view key, std::int64_t delta) {
  const FolderLock lock(folder_);
  const std::int64_t sum = parse_counter(key, get(key).value_or("0")) + delta;
  replace(key, std::to_string(sum));
  return sum;
}

std::string FileStore::set_once(std::string_view key, std::string_view value) {
  const FolderLock lock(folder_);
  if (auto present = get(key)) return *present;
  replace(key, value);
  return std::string(value);
}

}  // namespace kith::comm
