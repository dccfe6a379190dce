#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <new>
#include <vector>

namespace kith::comm::ucx {

// Memory for a version's part that came over the network; 64-byte aligned.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes);

  std::byte* data() const { return memory_.get(); }
  std::size_t capacity() const { return capacity_; }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t capacity_ = 0;
};

// Buffers that wait for their next use, so that a worker that meets many writers needs no more of them than
// it holds versions at a time. One thread at a time.
class StagingPool {
 public:
  // At least that long, and at most twice.
  Buffer take(std::size_t bytes);
  void give(Buffer buffer);

 private:
  std::multimap<std::size_t, Buffer> free_;  // by capacity
};

}  // namespace kith::comm::ucx
