#include "kith/comm/ucx/staging.h"

#include <algorithm>
#include <new>
#include <utility>

namespace kith::comm::ucx {

Buffer::Buffer(std::size_t bytes, const PinMemory& pin) : capacity_(bytes), pinned_(static_cast<bool>(pin)) {
  const auto free = [](std::byte* p) { ::operator delete (p, std::align_val_t{kPinPage}); };
  const std::shared_ptr<std::byte> memory(
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kPinPage})), free);
  memory_ = {kith::pinned(memory, {memory.get(), bytes}, pin), memory.get()};
}

Buffer StagingPool::take(std::size_t bytes, const PinMemory& pin) {
  bytes = whole_pages(std::max<std::size_t>(bytes, 1));
  ByCapacity& free = pin ? free_pinned_ : free_;
  const auto found = free.lower_bound(bytes);
  if (found == free.end() || found->first > 2 * bytes) return Buffer(bytes, pin);
  return std::move(free.extract(found).mapped());
}

void StagingPool::give(Buffer buffer) {
  if (!buffer) return;
  ByCapacity& free = buffer.pinned() ? free_pinned_ : free_;
  free.emplace(buffer.capacity(), std::move(buffer));
}

}  // namespace kith::comm::ucx
