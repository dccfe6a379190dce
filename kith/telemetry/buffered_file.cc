#include "kith/telemetry/buffered_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::telemetry {
namespace {

// Of records that wait for a disk that is full.
constexpr std::size_t kMostPendingBytes = std::size_t{16} << 20;

bool write_at(int fd, std::string_view text, std::size_t offset) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(fd, text.data(), text.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

BufferedFile::BufferedFile(const FileSinkOptions& options, const Frame& frame)
    : options_(options),
      frame_(frame),
      fd_(::open(options.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)),
      pending_(frame.head) {
  if (fd_ < 0) {
    throw InputError(cat("cannot create the file: ", std::strerror(errno)), options.path,
                     "does its folder exist, and may you write there?");
  }
  drain();
}

BufferedFile::~BufferedFile() {
  drain();
  ::close(fd_);
}

void BufferedFile::append(std::string_view record) {
  if (pending_.size() > kMostPendingBytes) drain();
  if (pending_.size() > kMostPendingBytes) return;
  if (!empty_) pending_ += frame_.between;
  pending_ += record;
  empty_ = false;
  if (pending_.size() >= options_.buffer_bytes) drain();
}

void BufferedFile::drain() {
  if (pending_.empty()) return;
  const std::size_t length = pending_.size();
  pending_ += frame_.tail;
  if (write_at(fd_, pending_, size_)) {
    size_ += length;
    pending_.clear();
    return;
  }
  const int problem = errno;
  pending_.resize(length);
  if (options_.log && !std::exchange(failed_, true))
    options_.log->error(cat(options_.path, ": ", std::strerror(problem),
                            "; records wait in memory until they can be written"));
}

}  // namespace kith::telemetry
