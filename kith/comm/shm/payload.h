#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kith/comm/shm/descriptor.h"

namespace kith::comm::shm {

// One worker's payload of a window as somebody sees it.
struct Payload {
  std::byte* data = nullptr;           // aligned to a cache line
  std::shared_ptr<const void> memory;  // keeps it mapped
  Descriptor descriptor{};             // what peers map it by; none in a payload that a peer made
};

// Where payloads lie. The words of a window are always in shared host memory; its payload may lie elsewhere,
// and is then reached through what the descriptor's file says. Safe from any thread.
class PayloadMemory {
 public:
  virtual ~PayloadMemory() = default;

  // `bytes` zero bytes of one's own. `label` is for people. Error when there is not enough.
  virtual Payload create(const std::string& label, std::size_t bytes) = 0;
  // What a peer made. InputError naming `place` when it is smaller, or of another kind of memory.
  virtual Payload map(const Descriptor& descriptor, std::size_t bytes, const std::string& place) = 0;
};

// Sealed segments, which nobody but their maker can write.
std::unique_ptr<PayloadMemory> host_payloads();

}  // namespace kith::comm::shm
