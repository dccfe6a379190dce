#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "kith/base/pin.h"

namespace kith::comm::ucx {

// Memory for a version's part that came over the network; whole pages.
class Buffer {
 public:
  Buffer() = default;
  // Pinned unless `pin` is empty.
  Buffer(std::size_t bytes, const PinMemory& pin);
  Buffer(Buffer&&) = default;
  Buffer& operator=(Buffer&&) = default;

  std::byte* data() const { return memory_.get(); }
  std::size_t capacity() const { return capacity_; }
  bool pinned() const { return pinned_; }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  std::shared_ptr<std::byte> memory_;  // and its pin
  std::size_t capacity_ = 0;
  bool pinned_ = false;
};

// Buffers that wait for their next use, so that a worker that meets many writers needs no more of them than
// it holds versions at a time. One thread at a time.
class StagingPool {
 public:
  // At least that long, and at most twice; pinned unless `pin` is empty.
  Buffer take(std::size_t bytes, const PinMemory& pin);
  void give(Buffer buffer);

 private:
  using ByCapacity = std::multimap<std::size_t, Buffer>;
  ByCapacity free_;
  ByCapacity free_pinned_;
};

// The pool as one window uses it.
struct Staging {
  StagingPool& pool;
  PinMemory pin = {};

  Buffer take(std::size_t bytes) const { return pool.take(bytes, pin); }
  void give(Buffer buffer) const { pool.give(std::move(buffer)); }
};

}  // namespace kith::comm::ucx
