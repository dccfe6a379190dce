#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kith/kernels/kernels.h"

namespace kith::kernels {

struct CpuOptions {
  // The caller's thread and threads - 1 sleeping helpers, which live as long as the kernels.
  int threads = 1;
  // A destination of at least this many bytes that is not also a source is written past the caches: it saves
  // the read of every line before it is overwritten. Smaller ones may still lie in a cache when they are next
  // read.
  std::size_t stream_from_bytes = std::size_t{4} << 20;
};

// SIMD loops for the best instruction set of this machine, chosen at run time. One instance serves one caller
// at a time.
template <class T>
std::unique_ptr<Kernels<T>> make_cpu_kernels(const CpuOptions& options = {});

// The instruction set that make_cpu_kernels() chooses now: "AVX3", "AVX2", "NEON", "portable", ...
std::string cpu_target();

}  // namespace kith::kernels
