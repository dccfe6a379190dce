#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "kith/base/check.h"

namespace kith::support {

// The blocks that are pinned in this process, as a driver keeps them. Safe from any thread.
class PinnedMemory {
 public:
  static PinnedMemory& of_process() {
    static PinnedMemory memory;
    return memory;
  }

  // Bug when it shares memory with another block.
  std::shared_ptr<const void> pin(std::span<const std::byte> block) {
    if (block.empty()) return nullptr;
    const std::uintptr_t begin = address(block.data());
    const std::lock_guard lock(mutex_);
    const auto next = blocks_.upper_bound(begin);
    const bool apart = (next == blocks_.end() || begin + block.size() <= next->first) &&
                       (next == blocks_.begin() || std::prev(next)->second <= begin);
    KITH_CHECK(apart, "a block that is pinned already");
    blocks_.emplace(begin, begin + block.size());
    return {block.data(), [this](const void* data) {
              const std::lock_guard unlock(mutex_);
              blocks_.erase(address(data));
            }};
  }

  bool holds(const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto next = blocks_.upper_bound(address(data));
    return bytes == 0 || (next != blocks_.begin() && address(data) + bytes <= std::prev(next)->second);
  }
  std::size_t blocks() {
    const std::lock_guard lock(mutex_);
    return blocks_.size();
  }

 private:
  static std::uintptr_t address(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

  std::mutex mutex_;
  std::map<std::uintptr_t, std::uintptr_t> blocks_;  // begin -> end
};

}  // namespace kith::support
