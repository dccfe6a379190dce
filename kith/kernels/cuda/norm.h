#pragma once

#include <cstddef>

#include "kith/base/dtype.h"
#include "kith/kernels/cuda/cuda_kernels.h"

namespace kith::kernels {

// Layer norms of a residual stream, with the sum before them: what a transformer's block does between two
// products of matrices. `rows` vectors of `width` elements, one after the other; REQUIRES: norm_fits(width),
// and every pointer aligned to 16 bytes.
bool norm_fits(std::size_t width);

struct AddNorm {
  std::size_t rows = 0;
  std::size_t width = 0;
  float eps = 1e-5F;
  const float* x = nullptr;
  const void* delta = nullptr;  // in `type`; null: nothing is added
  const float* weight = nullptr;
  const float* bias = nullptr;  // null: none
  DType type = DType::bf16;     // bf16 or f16; arithmetic is in float
  float* sum = nullptr;         // x + delta; not written without a delta
  void* normed = nullptr;       // in `type`
  float* mean = nullptr;        // of each row, for the gradient
  float* inverse_deviation = nullptr;
};

// sum = x + delta; normed = (sum - mean) / deviation * weight + bias, by row. One pass over memory. Puts its
// work on the stream and returns.
void add_norm(const CudaOptions& on, const AddNorm& problem);

struct AddNormGradient {
  std::size_t rows = 0;
  std::size_t width = 0;
  const float* sum = nullptr;
  const float* mean = nullptr;
  const float* inverse_deviation = nullptr;
  const float* weight = nullptr;
  DType type = DType::bf16;
  const void* of_normed = nullptr;  // the gradient that arrives, in `type`
  const float* of_sum = nullptr;    // the one that arrives at the sum itself; null: none
  float* of_x = nullptr;
  void* of_delta = nullptr;  // the same in `type`; null: there was no delta
  float* of_weight = nullptr;
  float* of_bias = nullptr;  // null: there was no bias
  float* scratch = nullptr;  // norm_scratch(rows, width) floats
};

std::size_t norm_scratch(std::size_t rows, std::size_t width);

// One pass over memory, and one over the scratch. Sums run in the same order every time.
void add_norm_gradient(const CudaOptions& on, const AddNormGradient& problem);

}  // namespace kith::kernels
