#pragma once

#include <cstddef>
#include <cstdint>

#include "kith/base/dtype.h"
#include "kith/kernels/cuda/cuda_kernels.h"

namespace kith::kernels {

// Scores of `classes` classes in each of `rows` rows, one row after the other, and the right class of each.
struct Classification {
  const void* scores = nullptr;
  DType type = DType::f32;  // f32, bf16 or f16; arithmetic is in float
  const std::int64_t* targets = nullptr;
  std::size_t rows = 0;
  std::size_t classes = 0;
};

// For each row log_sums = log sum_c exp(score c) and losses = log_sums - the score of its target; NaN where
// the target is not a class. Reads the scores once. Puts its work on the stream and returns.
void cross_entropy(const CudaOptions& on, const Classification& problem, float* log_sums, float* losses);

// gradient(row, c) = *scale / rows * (exp(score c - log_sums) - (c is the target)): that of *scale times the
// mean loss, in the scores' type and layout. Reads the scores once; `scale` lies on the GPU.
void cross_entropy_gradient(const CudaOptions& on, const Classification& problem, const float* log_sums,
                            const float* scale, void* gradient);

}  // namespace kith::kernels
