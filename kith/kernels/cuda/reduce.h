#pragma once

#include <cuda_runtime_api.h>

#include "kith/kernels/kernels.h"

namespace kith::kernels::cuda {

// Sums of squares in two launches: blocks add up what is theirs into partial sums, one block adds the partial
// sums up. Which element goes into which sum depends on the lengths alone, so the bits do not vary.

inline constexpr int kPartials = 1056;  // 8 blocks for each of an H200's 132 multiprocessors
inline constexpr int kMostTerms = 256;  // as many parameters as GPT-2 of 124 M has in one launch

struct Term {
  const void* a;
  const void* b;  // same type, or null
  std::size_t count;
  std::size_t first_tile;
  DType type;
};

struct Terms {
  int terms = 0;
  std::size_t tiles = 0;
  Term term[kMostTerms];
};

enum class Sum { fresh, added };

// partial[i] (=, or +=) squares of a, partial[kPartials + i] of a - b.
cudaError_t launch_partial_squares(const Terms& terms, Sum sum, double* partials, cudaStream_t stream);
// to[0] = all partial squares of a, to[1] those of a - b; `to` has room for `sums` of them, 1 or 2.
cudaError_t launch_total_squares(const double* partials, int sums, double* to, cudaStream_t stream);
// *found = 1 where an element of an `a` is inf or NaN; else it stays as it is. No order of blocks matters.
cudaError_t launch_find_non_finite(const Terms& terms, float* found, cudaStream_t stream);
cudaError_t launch_clip_factor(const double* sum, double most, double* factor, cudaStream_t stream);

std::size_t tiles_of_term(std::size_t count);

// Casts; neither type is i8.
cudaError_t launch_convert(void* to, DType to_type, const void* from, DType from_type, std::size_t count,
                           cudaStream_t stream);

}  // namespace kith::kernels::cuda
