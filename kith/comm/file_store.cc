#include "kith/comm/file_store.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/counter_text.h"
#include "kith/comm/file_will.h"
#include "kith/comm/net/limit.h"
#include "kith/comm/shm/descriptor.h"

namespace kith::comm {
namespace {

// Excludes other threads and processes: every holder has a file description of its own.
class FolderLock {
 public:
  FolderLock(const std::filesystem::path& folder, const std::stop_token& stop)
      : fd_(::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (fd_ >= 0 && (stop.stop_possible() ? try_until(stop) : ::flock(fd_, LOCK_EX)) == 0) return;
    const int reason = errno;
    if (fd_ >= 0) ::close(fd_);
    throw Error(cat("cannot lock: ", std::strerror(reason)), cat("store ", (folder / ".lock").string()),
                "check that the folder exists, is writable, and is on a file system with flock");
  }
  ~FolderLock() { ::close(fd_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  // A holder may be stopped while it holds the lock, and flock hears of no stop token.
  int try_until(const std::stop_token& stop) const {
    while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK || stop.stop_requested()) return -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return 0;
  }

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
std::filesystem::path FileStore::file_of(std::string_view key, char kind) const {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string name(1, kind);
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

FileStore::~FileStore() {
  if (!will_) return;
  try {
    put_on_list(*this, will_->list, will_->value);
  } catch (const Error&) {
    return;  // the folder is gone, or full; the end of the process will tell
  }
  withdraw_will();
}

void FileStore::leave_will(std::string_view list, std::string_view value) {
  Will will{std::string(list), std::string(value), write_will(file_of(list, 'w'), value)};
  withdraw_will();
  const std::lock_guard lock(mutex_);
  will_ = std::move(will);
}

void FileStore::withdraw_will() {
  const std::lock_guard lock(mutex_);
  std::error_code none;
  if (will_) std::filesystem::remove(will_->file, none);
  will_.reset();
}

std::string FileStore::own_will(std::string_view list) {
  const std::lock_guard lock(mutex_);
  return will_ && will_->list == list ? will_->file.filename().string() : std::string();
}

void FileStore::set_for(std::string_view key, std::string_view value, std::stop_token stop) {
  const FolderLock lock(folder_, stop);
  replace(key, value);
}

std::optional<std::string> FileStore::get_for(std::string_view key, std::stop_token) {
  // Asked for many times while nothing is there: no streams.
  const shm::Descriptor file(::open(file_of(key).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string value;
  std::array<char, 4096> part;
  while (true) {
    const ssize_t bytes = ::read(file.get(), part.data(), part.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0)
      throw Error(cat("cannot read key '", key, "': ", std::strerror(errno)), cat("store ", folder_.string()),
                  "check the folder and its file system");
    if (bytes == 0) return value;
    value.append(part.data(), static_cast<std::size_t>(bytes));
  }
}

std::optional<std::string> FileStore::wait_for(std::string_view key, Deadline deadline,
                                               std::stop_token stop) {
  using std::chrono::milliseconds;
  std::optional<net::StopFile> stopped;
  if (stop.stop_possible()) stopped.emplace(stop);
  WillWatch wills(file_of(list_of(key), 'w'));
  // Asking again costs an open of a missing file; between machines no notification would tell.
  for (Clock::Duration pause = milliseconds(1);;
       pause = std::min<Clock::Duration>(2 * pause, milliseconds(50))) {
    if (auto value = get(key)) return value;
    if (const auto due = wills.due(own_will(list_of(key)))) {
      put_on_list(*this, list_of(key), due->value);
      std::error_code none;
      std::filesystem::remove(due->file, none);
      continue;
    }
    const Clock::Time now = SteadyClock().now();
    if (now >= deadline || stop.stop_requested()) return std::nullopt;
    std::vector<pollfd> files = wills.files();
    files.push_back({stopped ? stopped->fd() : -1, POLLIN, 0});
    const auto left = std::chrono::ceil<milliseconds>(std::min<Clock::Duration>(deadline - now, pause));
    ::poll(files.data(), files.size(), static_cast<int>(left.count()));
  }
}

std::int64_t FileStore::add_for(std::string_view key, std::int64_t delta, std::stop_token stop) {
  const FolderLock lock(folder_, stop);
  const std::int64_t sum = add_to_counter(key, get(key).value_or("0"), delta);
  replace(key, std::to_string(sum));
  return sum;
}

std::string FileStore::set_once_for(std::string_view key, std::string_view value, std::stop_token stop) {
  const FolderLock lock(folder_, stop);
  if (auto present = get(key)) return *present;
  replace(key, value);
  return std::string(value);
}

}  // namespace kith::comm
