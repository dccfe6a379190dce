#include "kith/kernels/cuda/elements.cuh"
#include "kith/kernels/cuda/launch.cuh"
#include "kith/kernels/cuda/reduce.h"
#include "kith/kernels/scalars.h"

namespace kith::kernels::cuda {
namespace {

constexpr std::size_t kTermTile = 8192;

struct Squares {
  double norm = 0;
  double distance = 0;
};

// The sum over the block in a fixed order, valid in thread 0.
__device__ Squares sum_of_block(Squares mine) {
  __shared__ Squares of_warp[kThreads / kWarp];
  for (int step = kWarp / 2; step > 0; step /= 2) {
    mine.norm += __shfl_down_sync(0xffffffffU, mine.norm, step);
    mine.distance += __shfl_down_sync(0xffffffffU, mine.distance, step);
  }
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
  __syncthreads();
  Squares all;
  for (int i = 0; threadIdx.x == 0 && i < kThreads / kWarp; ++i) {
    all.norm += of_warp[i].norm;
    all.distance += of_warp[i].distance;
  }
  return all;
}

// What a thread makes of the elements that it sees: their squares.
struct SquaresSeen {
  Squares sum;

  __device__ void see(float a) {
    const double value = a;
    sum.norm = __fma_rn(value, value, sum.norm);
  }
  template <Order kOrder>
  __device__ void see(const Term& term, const BlockLane& p) {
    double a[4], b[4]{};
    convert<double, kOrder>(fetch<double, kOrder>(term.a, term.type, p), term.type, 0.0F, a);
    if (term.b != nullptr)
      convert<double, kOrder>(fetch<double, kOrder>(term.b, term.type, p), term.type, 0.0F, b);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      sum.norm = __fma_rn(a[k], a[k], sum.norm);
      if (term.b != nullptr) sum.distance = __fma_rn(a[k] - b[k], a[k] - b[k], sum.distance);
    }
  }
};

// Zero times each: that is zero, but for inf and NaN, whose NaN stays. Floats need no double for it.
struct ZerosSeen {
  float of_floats = 0;
  double of_others = 0;

  __device__ void see(float a) { of_floats = __fmaf_rn(a, 0.0F, of_floats); }
  template <Order kOrder>
  __device__ void see(const Term& term, const BlockLane& p) {
    double a[4];
    convert<double, kOrder>(fetch<double, kOrder>(term.a, term.type, p), term.type, 0.0F, a);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      of_others = __fma_rn(a[k], 0.0, of_others);
  }
  __device__ bool non_finite() const {
    return of_floats != 0 || of_others != 0;
  }
};

// A warp's part of a whole tile of floats, in the order of the loop over blocks; all loads are under way
// before the first is used.
template <class Seen>
__device__ void see_floats(const void* a, std::size_t first, int lane, Seen& seen) {
  constexpr std::size_t kStride = kThreads / kWarp * kBlock;
  constexpr int kMany = kTermTile / kStride;
  float4 x[kMany];
#pragma unroll
  for (int k = 0; k < kMany; ++k)
    x[k] = word_at<float4>(a, (first + k * kStride) / 4 + static_cast<std::size_t>(lane));
#pragma unroll
  for (int k = 0; k < kMany; ++k) {
    seen.see(x[k].x);
    seen.see(x[k].y);
    seen.see(x[k].z);
    seen.see(x[k].w);
  }
}

__device__ bool aligned_for_four(const Term& term) {
  const std::size_t bytes = min(std::size_t{16}, 4 * size_of(term.type));
  return (reinterpret_cast<std::uintptr_t>(term.a) | reinterpret_cast<std::uintptr_t>(term.b)) % bytes == 0;
}

// All tiles that are this block's.
template <class Seen>
__device__ void see_tiles(const Terms& terms, Seen& seen) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int t = 0;
  for (std::size_t tile = blockIdx.x; tile < terms.tiles; tile += gridDim.x) {
    while (t + 1 < terms.terms && terms.term[t + 1].first_tile <= tile)
      ++t;
    const Term& term = terms.term[t];
    const bool wide = aligned_for_four(term);
    std::size_t first = (tile - term.first_tile) * kTermTile;
    const std::size_t end = min(first + kTermTile, term.count);
    if (wide && term.type == DType::f32 && term.b == nullptr && end - first == kTermTile) {
      see_floats(term.a, first + threadIdx.x / kWarp * kBlock, lane, seen);
      continue;
    }
    for (first += threadIdx.x / kWarp * kBlock; first < end; first += kThreads / kWarp * kBlock) {
      if (wide && end - first >= kBlock) {
        seen.template see<Order::wide>(term, {first, lane, kBlock});
      } else {
        seen.template see<Order::strided>(term, {first, lane, static_cast<int>(min(end - first, kBlock))});
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    partial_squares(const __grid_constant__ Terms terms, Sum sum, double* partials) {
  SquaresSeen seen;
  see_tiles(terms, seen);
  const Squares all = sum_of_block(seen.sum);
  if (threadIdx.x != 0) return;
  double* const norm = partials + blockIdx.x;
  double* const distance = norm + kPartials;
  *norm = (sum == Sum::fresh ? 0 : *norm) + all.norm;
  *distance = (sum == Sum::fresh ? 0 : *distance) + all.distance;
}

__global__ void __launch_bounds__(kThreads) total_squares(const double* partials, int sums, double* to) {
  Squares mine;
  for (int i = static_cast<int>(threadIdx.x); i < kPartials; i += kThreads) {
    mine.norm += partials[i];
    mine.distance += partials[kPartials + i];
  }
  const Squares all = sum_of_block(mine);
  if (threadIdx.x != 0) return;
  to[0] = all.norm;
  if (sums > 1) to[1] = all.distance;
}

__global__ void __launch_bounds__(kThreads)
    find_non_finite(const __grid_constant__ Terms terms, float* found) {
  ZerosSeen seen;
  see_tiles(terms, seen);
  if (seen.non_finite()) *found = 1;
}

__global__ void clip(const double* sum, double most, double* factor) {
  const double wanted = most / (sqrt(*sum) + 1e-6);
  *factor = wanted > 1 ? 1 : wanted;
}

}  // namespace

std::size_t tiles_of_term(std::size_t count) {
  return (count + kTermTile - 1) / kTermTile;
}

cudaError_t launch_partial_squares(const Terms& terms, Sum sum, double* partials, cudaStream_t stream) {
  return launch(partial_squares, {kPartials, kThreads, stream}, terms, sum, partials);
}

cudaError_t launch_total_squares(const double* partials, int sums, double* to, cudaStream_t stream) {
  return launch(total_squares, {1, kThreads, stream}, partials, sums, to);
}

cudaError_t launch_find_non_finite(const Terms& terms, float* found, cudaStream_t stream) {
  return launch(find_non_finite, {kPartials, kThreads, stream}, terms, found);
}

cudaError_t launch_clip_factor(const double* sum, double most, double* factor, cudaStream_t stream) {
  return launch(clip, {1, 1, stream}, sum, most, factor);
}

}  // namespace kith::kernels::cuda
