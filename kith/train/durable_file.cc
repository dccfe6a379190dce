#include "kith/train/durable_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path) {
  throw Error(cat("cannot ", what, ": ", std::strerror(errno)), path.string(),
              "look at the space and rights of that disk");
}

// One write() call moves at most 2 GiB on Linux.
constexpr std::size_t kLargestWrite = std::size_t{1} << 30;

}  // namespace

DurableFile::DurableFile(std::filesystem::path target)
    : target_(std::move(target)),
      temporary_(target_.parent_path() / cat(".", target_.filename().string(), ".tmp")) {
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file_ < 0) fail("create", temporary_);
}

DurableFile::~DurableFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void DurableFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_, bytes.data(), std::min(bytes.size(), kLargestWrite));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", temporary_);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void DurableFile::commit() {
  if (::fsync(file_) != 0) fail("sync", temporary_);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("rename", temporary_);
  ::close(std::exchange(file_, -1));
  sync_folder(target_.parent_path());
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder.empty() ? "." : folder;
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) fail("open", path);
  const int result = ::fsync(file);
  ::close(file);
  if (result != 0) fail("sync", path);
}

}  // namespace kith::train
