#include "bench/schedule/allocations.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include <malloc.h>

namespace {

// operator new has nowhere else to keep its count.
thread_local std::ptrdiff_t live_bytes = 0;
thread_local std::ptrdiff_t peak_bytes = 0;

}  // namespace

void* operator new(std::size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  live_bytes += static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  peak_bytes = std::max(peak_bytes, live_bytes);
  return memory;
}

void operator delete(void* memory) noexcept {
  live_bytes -= static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

namespace kith::bench {

void start_counting() {
  live_bytes = peak_bytes = 0;
}

Allocations stop_counting() {
  return {static_cast<std::size_t>(peak_bytes)};
}

}  // namespace kith::bench
