#pragma once

#include <cstddef>

namespace kith::comm::conformance {

// Starts a kernel that writes to `bytes` of the GPU's memory over and over for `seconds`, and returns.
void keep_busy(std::byte* memory, std::size_t bytes, int seconds);

}  // namespace kith::comm::conformance
