#include <algorithm>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kith/base/check.h"
#include "kith/kernels/cuda/device.h"
#include "kith/kernels/cuda/launch.cuh"
#include "kith/kernels/cuda/norm.h"

namespace kith::kernels {
namespace {

// A warp has a row: lane l holds the packs of four elements l, l + 32, and so on.
constexpr int kWarp = 32;
constexpr int kWarps = 8;  // of a block
constexpr int kPack = 4;
constexpr int kMostPacks = 16;
constexpr unsigned kGradientBlocks = 264;  // two for each multiprocessor of a large GPU

__device__ float widen(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ float widen(__half x) {
  return __half2float(x);
}
__device__ void narrow(float x, __nv_bfloat16& to) {
  to = __float2bfloat16_rn(x);
}
__device__ void narrow(float x, __half& to) {
  to = __float2half_rn(x);
}

template <class E>
struct alignas(kPack * sizeof(E)) Pack {
  E element[kPack];
};

__device__ void load(const float* from, std::size_t pack, float (&to)[kPack]) {
  const auto packed = reinterpret_cast<const Pack<float>*>(from)[pack];
#pragma unroll
  for (int k = 0; k < kPack; ++k)
    to[k] = packed.element[k];
}
template <class E>
__device__ void load(const E* from, std::size_t pack, float (&to)[kPack]) {
  const auto packed = reinterpret_cast<const Pack<E>*>(from)[pack];
#pragma unroll
  for (int k = 0; k < kPack; ++k)
    to[k] = widen(packed.element[k]);
}
__device__ void store(const float (&from)[kPack], float* to, std::size_t pack) {
  Pack<float> packed;
#pragma unroll
  for (int k = 0; k < kPack; ++k)
    packed.element[k] = from[k];
  reinterpret_cast<Pack<float>*>(to)[pack] = packed;
}
template <class E>
__device__ void store(const float (&from)[kPack], E* to, std::size_t pack) {
  Pack<E> packed;
#pragma unroll
  for (int k = 0; k < kPack; ++k)
    narrow(from[k], packed.element[k]);
  reinterpret_cast<Pack<E>*>(to)[pack] = packed;
}

__device__ float sum_of_warp(float x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2)
    x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}

template <class E, int kPacks>
__global__ void __launch_bounds__(kWarp* kWarps) normalize(const AddNorm p) {
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (row >= p.rows) return;
  const unsigned lane = threadIdx.x % kWarp;
  const std::size_t packs = p.width / kPack, first = row * packs;
  float x[kPacks][kPack];
  float total = 0;
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const std::size_t pack = i * kWarp + lane;
    if (pack >= packs) continue;
    load(p.x, first + pack, x[i]);
    if (p.delta) {
      float delta[kPack];
      load(static_cast<const E*>(p.delta), first + pack, delta);
#pragma unroll
      for (int k = 0; k < kPack; ++k)
        x[i][k] += delta[k];
      store(x[i], p.sum, first + pack);
    }
#pragma unroll
    for (int k = 0; k < kPack; ++k)
      total += x[i][k];
  }
  const float mean = sum_of_warp(total) / static_cast<float>(p.width);
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    if (i * kWarp + lane >= packs) continue;
#pragma unroll
    for (int k = 0; k < kPack; ++k)
      squares += (x[i][k] - mean) * (x[i][k] - mean);
  }
  const float inverse = rsqrtf(sum_of_warp(squares) / static_cast<float>(p.width) + p.eps);
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const std::size_t pack = i * kWarp + lane;
    if (pack >= packs) continue;
    float weight[kPack], bias[kPack] = {};
    load(p.weight, pack, weight);
    if (p.bias) load(p.bias, pack, bias);
#pragma unroll
    for (int k = 0; k < kPack; ++k)
      x[i][k] = (x[i][k] - mean) * inverse * weight[k] + bias[k];
    store(x[i], static_cast<E*>(p.normed), first + pack);
  }
  if (lane == 0) {
    p.mean[row] = mean;
    p.inverse_deviation[row] = inverse;
  }
}

// Rows go to warps in turns. What a block adds to the gradients of weight and bias goes to the scratch:
// (block, weight or bias, width).
template <class E, int kPacks>
__global__ void __launch_bounds__(kWarp* kWarps) differentiate(const AddNormGradient p) {
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::size_t packs = p.width / kPack;
  const float each = 1.0F / static_cast<float>(p.width);
  float of_weight[kPacks][kPack] = {}, of_bias[kPacks][kPack] = {};
  for (std::size_t row = static_cast<std::size_t>(blockIdx.x) * kWarps + warp; row < p.rows;
       row += static_cast<std::size_t>(gridDim.x) * kWarps) {
    const std::size_t first = row * packs;
    const float mean = p.mean[row], inverse = p.inverse_deviation[row];
    float x[kPacks][kPack], dy[kPacks][kPack];
    float dot = 0, total = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const std::size_t pack = i * kWarp + lane;
      if (pack >= packs) continue;
      float weight[kPack];
      load(p.weight, pack, weight);
      load(p.sum, first + pack, x[i]);
      load(static_cast<const E*>(p.of_normed), first + pack, dy[i]);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        x[i][k] = (x[i][k] - mean) * inverse;
        of_weight[i][k] += dy[i][k] * x[i][k];
        of_bias[i][k] += dy[i][k];
        dy[i][k] *= weight[k];
        dot += dy[i][k] * x[i][k];
        total += dy[i][k];
      }
    }
    dot = sum_of_warp(dot) * each;
    total = sum_of_warp(total) * each;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const std::size_t pack = i * kWarp + lane;
      if (pack >= packs) continue;
      float of_sum[kPack] = {};
      if (p.of_sum) load(p.of_sum, first + pack, of_sum);
#pragma unroll
      for (int k = 0; k < kPack; ++k)
        of_sum[k] += inverse * (dy[i][k] - total - x[i][k] * dot);
      store(of_sum, p.of_x, first + pack);
      if (p.of_delta) store(of_sum, static_cast<E*>(p.of_delta), first + pack);
    }
  }
  __shared__ float of_warp[kWarps][kWarp * kPack];
  for (int part = 0; part < (p.of_bias ? 2 : 1); ++part) {
    float* const to = p.scratch + (static_cast<std::size_t>(blockIdx.x) * 2 + part) * p.width;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
#pragma unroll
      for (int k = 0; k < kPack; ++k)
        of_warp[warp][lane * kPack + k] = part == 0 ? of_weight[i][k] : of_bias[i][k];
      __syncthreads();
      const std::size_t column = static_cast<std::size_t>(i) * kWarp * kPack + threadIdx.x;
      if (threadIdx.x < kWarp * kPack && column < p.width) {
        float all = 0;
        for (int w = 0; w < kWarps; ++w)
          all += of_warp[w][threadIdx.x];
        to[column] = all;
      }
      __syncthreads();
    }
  }
}

// A warp-wide strip of columns; the warps of the block share its rows.
__global__ void __launch_bounds__(kWarp* kWarps)
    add_blocks(const float* scratch, unsigned blocks, std::size_t width, float* of_weight, float* of_bias) {
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::size_t strips = (width + kWarp - 1) / kWarp;
  const std::size_t part = blockIdx.x / strips, column = blockIdx.x % strips * kWarp + lane;
  float mine = 0;
  for (unsigned b = warp; b < blocks && column < width; b += kWarps)
    mine += scratch[(static_cast<std::size_t>(b) * 2 + part) * width + column];
  __shared__ float of_warp[kWarps][kWarp];
  of_warp[warp][lane] = mine;
  __syncthreads();
  if (warp != 0 || column >= width) return;
  float all = 0;
  for (int w = 0; w < kWarps; ++w)
    all += of_warp[w][lane];
  (part == 0 ? of_weight : of_bias)[column] = all;
}

unsigned gradient_blocks(std::size_t rows) {
  return static_cast<unsigned>(std::min<std::size_t>((rows + kWarps - 1) / kWarps, kGradientBlocks));
}

// Calls `body` with a null pointer to the elements' type and with the packs of a lane.
template <class Body>
void with_shape(DType type, std::size_t width, const Body& body) {
  KITH_CHECK(norm_fits(width), "the width fits");
  const auto with_packs = [&]<class E>(E* none) {
    const std::size_t packs = (width + kWarp * kPack - 1) / (kWarp * kPack);
    if (packs <= 1) return body(none, std::integral_constant<int, 1>());
    if (packs <= 2) return body(none, std::integral_constant<int, 2>());
    if (packs <= 4) return body(none, std::integral_constant<int, 4>());
    if (packs <= 6) return body(none, std::integral_constant<int, 6>());
    if (packs <= 8) return body(none, std::integral_constant<int, 8>());
    if (packs <= 10) return body(none, std::integral_constant<int, 10>());
    body(none, std::integral_constant<int, kMostPacks>());
  };
  if (type == DType::bf16) return with_packs(static_cast<__nv_bfloat16*>(nullptr));
  KITH_CHECK(type == DType::f16, "norms are for bf16 and f16");
  with_packs(static_cast<__half*>(nullptr));
}

}  // namespace

bool norm_fits(std::size_t width) {
  return width > 0 && width % kPack == 0 && width <= kMostPacks * kWarp * kPack;
}

std::size_t norm_scratch(std::size_t rows, std::size_t width) {
  return 2 * width * gradient_blocks(rows);
}

void add_norm(const CudaOptions& on, const AddNorm& problem) {
  if (problem.rows == 0) return;
  const cuda::OnDevice here(on.device);
  const cuda::Grid grid{static_cast<unsigned>((problem.rows + kWarps - 1) / kWarps), kWarp * kWarps,
                        on.stream};
  with_shape(problem.type, problem.width, [&]<class E, int kPacks>(E*, std::integral_constant<int, kPacks>) {
    cuda::require(cuda::launch(normalize<E, kPacks>, grid, problem), "a layer norm");
  });
}

void add_norm_gradient(const CudaOptions& on, const AddNormGradient& problem) {
  if (problem.rows == 0) return;
  const cuda::OnDevice here(on.device);
  const cuda::Grid grid{gradient_blocks(problem.rows), kWarp * kWarps, on.stream};
  with_shape(problem.type, problem.width, [&]<class E, int kPacks>(E*, std::integral_constant<int, kPacks>) {
    cuda::require(cuda::launch(differentiate<E, kPacks>, grid, problem), "a layer norm's gradient");
  });
  const auto strips = static_cast<unsigned>((problem.width + kWarp - 1) / kWarp);
  const cuda::Grid last{strips * (problem.of_bias ? 2 : 1), kWarp * kWarps, on.stream};
  cuda::require(cuda::launch(add_blocks, last, problem.scratch, grid.blocks, problem.width, problem.of_weight,
                             problem.of_bias),
                "a layer norm's gradient");
}

}  // namespace kith::kernels
