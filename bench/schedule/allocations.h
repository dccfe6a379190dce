#pragma once

#include <cstddef>

namespace kith::bench {

// Heap use of this thread since start(), counted by the program's own operator new.
struct Allocations {
  std::size_t peak_bytes = 0;  // most bytes alive at once
};

void start_counting();
Allocations stop_counting();

}  // namespace kith::bench
