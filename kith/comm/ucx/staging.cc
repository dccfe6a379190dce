#include "kith/comm/ucx/staging.h"

#include <algorithm>
#include <utility>

namespace kith::comm::ucx {
namespace {

constexpr std::size_t kLeast = 4096;

}  // namespace

Buffer::Buffer(std::size_t bytes)
    : memory_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}))), capacity_(bytes) {}

Buffer StagingPool::take(std::size_t bytes) {
  bytes = std::max(bytes, kLeast);
  const auto found = free_.lower_bound(bytes);
  if (found == free_.end() || found->first > 2 * bytes) return Buffer(bytes);
  return std::move(free_.extract(found).mapped());
}

void StagingPool::give(Buffer buffer) {
  if (buffer) free_.emplace(buffer.capacity(), std::move(buffer));
}

}  // namespace kith::comm::ucx
