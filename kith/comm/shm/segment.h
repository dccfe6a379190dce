#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "kith/comm/shm/descriptor.h"

namespace kith::comm::shm {

// Who but the maker may write to a segment.
enum class Sharing { read_only, read_write };

// Anonymous shared memory without a name: it exists as long as somebody has it mapped or holds its
// descriptor, so there is nothing to clean up, and the size of /dev/shm does not matter. Its size is sealed.
class Segment {
 public:
  // Makes one of `bytes` zero bytes, mapped writable here. With Sharing::read_only nobody else can map it
  // writable. `label` shows in /proc/PID/maps. Error when memory or descriptors run out.
  static Segment create(const std::string& label, std::size_t bytes, Sharing sharing);
  // Maps one that a peer made. Error naming `place` when it is
  // smaller than `bytes` or its size is not sealed.
  static Segment map(const Descriptor& fd, std::size_t bytes, Sharing sharing, const std::string& place);

  std::byte* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }
  // The descriptor to hand to peers; none in a segment that a peer made.
  const Descriptor& descriptor() const { return fd_; }
  // The same, given away; the mapping stays.
  Descriptor take_descriptor() { return std::move(fd_); }
  // Keeps the mapping alive.
  std::shared_ptr<std::byte> memory() const { return memory_; }

 private:
  Segment(Descriptor fd, std::shared_ptr<std::byte> memory, std::size_t bytes)
      : fd_(std::move(fd)), memory_(std::move(memory)), bytes_(bytes) {}

  Descriptor fd_;
  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_;
};

}  // namespace kith::comm::shm
