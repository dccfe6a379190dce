#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "kith/kernels/kernels.h"
#include "kith/kernels/scalars.h"

namespace kith::kernels {

// The inner loops of the cpu kernels, one table per instruction set. The build compiles highway/ or
// portable/.

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// One fused call, checked and prepared. Loops know neither i8 nor Source::rounded_to: cpu/staging.h does
// that.
template <class T>
struct Job {
  Destination<T> to;
  std::span<const Source> sources;
  T scale = 1;
  Gradient gradient;          // data is null for a bare mix
  std::array<T*, 3> state{};  // momentum; m, v; m, v, accumulator
  bool streams = false;       // write `values` past the caches
};

template <class T>
struct Loops {
  const char* target = "";
  void (*mix)(const Job<T>& job, Range range) = nullptr;
  void (*sgd)(const Job<T>& job, const SgdScalars<T>& scalars, bool first, Range range) = nullptr;
  void (*adam)(const Job<T>& job, const AdamScalars<T>& scalars, Range range) = nullptr;
  void (*accum_adam)(const Job<T>& job, const AdamScalars<T>& scalars, bool commits, Range range) = nullptr;
  // One block, summed in a fixed order.
  Norms (*norms)(const T* a, const T* b, std::size_t count) = nullptr;
};

struct ConvertJob {
  void* to = nullptr;
  DType to_type = DType::f32;
  const void* from = nullptr;
  DType from_type = DType::f32;
};

using ConvertLoop = void (*)(const ConvertJob& job, Range range);

// The best table for this machine. Defined for float and double.
template <class T>
Loops<T> select_loops();
ConvertLoop select_convert_loop();

}  // namespace kith::kernels
