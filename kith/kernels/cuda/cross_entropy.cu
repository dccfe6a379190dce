#include <cfloat>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kith/base/check.h"
#include "kith/kernels/cuda/cross_entropy.h"
#include "kith/kernels/cuda/device.h"
#include "kith/kernels/cuda/launch.cuh"

namespace kith::kernels {
namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 512;  // a block has one row

__device__ float widen(float x) {
  return x;
}
__device__ float widen(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ float widen(__half x) {
  return __half2float(x);
}
__device__ void narrow(float x, float& to) {
  to = x;
}
__device__ void narrow(float x, __nv_bfloat16& to) {
  to = __float2bfloat16_rn(x);
}
__device__ void narrow(float x, __half& to) {
  to = __float2half_rn(x);
}

// What one access moves.
template <class E>
struct alignas(16) Packet {
  static constexpr int kCount = 16 / sizeof(E);
  E element[kCount];
};

// How a row is cut: elements before the first packet, packets, elements after the last.
struct Cut {
  std::size_t before;
  std::size_t packets;
};

template <class E>
__device__ Cut cut_row(const E* row, std::size_t count) {
  const std::size_t off = reinterpret_cast<std::uintptr_t>(row) % 16;
  const std::size_t before = min(count, off == 0 ? 0 : (16 - off) / sizeof(E));
  return {before, (count - before) / Packet<E>::kCount};
}

// sum of exp(x - largest) over what was added. Finite from the start, so that scores of -infinity add
// nothing.
struct ExpSum {
  float largest = -FLT_MAX;
  float sum = 0;

  __device__ void rise_to(float top) {
    if (top <= largest) return;
    sum *= __expf(largest - top);
    largest = top;
  }
  __device__ void add(float x) {
    rise_to(x);
    sum += __expf(x - largest);
  }
  __device__ void add(const ExpSum& other) {
    rise_to(other.largest);
    sum += other.sum * __expf(other.largest - largest);
  }
};

__device__ ExpSum sum_of_warp(ExpSum mine) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    ExpSum other;
    other.largest = __shfl_xor_sync(0xffffffffU, mine.largest, step);
    other.sum = __shfl_xor_sync(0xffffffffU, mine.sum, step);
    mine.add(other);
  }
  return mine;
}

// Valid in thread 0.
__device__ ExpSum sum_of_block(ExpSum mine) {
  __shared__ ExpSum of_warp[kThreads / kWarp];
  mine = sum_of_warp(mine);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
  __syncthreads();
  ExpSum all = of_warp[0];
  for (int i = 1; threadIdx.x == 0 && i < kThreads / kWarp; ++i)
    all.add(of_warp[i]);
  return all;
}

template <class E>
__global__ void __launch_bounds__(kThreads)
    sum_rows(const Classification problem, float* log_sums, float* losses) {
  using Packed = Packet<E>;
  const E* const row = static_cast<const E*>(problem.scores) + blockIdx.x * problem.classes;
  const auto [before, packets] = cut_row(row, problem.classes);
  const auto* const packed = reinterpret_cast<const Packed*>(row + before);
  ExpSum mine;
  for (std::size_t c = threadIdx.x; c < before; c += kThreads)
    mine.add(widen(row[c]));
#pragma unroll 2
  for (std::size_t p = threadIdx.x; p < packets; p += kThreads) {
    const Packed packet = packed[p];
    float x[Packed::kCount];
    float top = -FLT_MAX;
#pragma unroll
    for (int k = 0; k < Packed::kCount; ++k) {
      x[k] = widen(packet.element[k]);
      top = fmaxf(top, x[k]);
    }
    mine.rise_to(top);
#pragma unroll
    for (int k = 0; k < Packed::kCount; ++k)
      mine.sum += __expf(x[k] - mine.largest);
  }
  for (std::size_t c = before + packets * Packed::kCount + threadIdx.x; c < problem.classes; c += kThreads)
    mine.add(widen(row[c]));
  const ExpSum all = sum_of_block(mine);
  if (threadIdx.x != 0) return;
  const float log_sum = all.largest + logf(all.sum);
  const std::int64_t target = problem.targets[blockIdx.x];
  const bool is_class = target >= 0 && static_cast<std::size_t>(target) < problem.classes;
  log_sums[blockIdx.x] = log_sum;
  losses[blockIdx.x] = is_class ? log_sum - widen(row[target]) : NAN;
}

template <class E>
__global__ void __launch_bounds__(kThreads)
    differentiate_rows(const Classification problem, const float* log_sums, const float* scale, E* gradient) {
  using Packed = Packet<E>;
  const std::size_t first = blockIdx.x * problem.classes;
  const E* const row = static_cast<const E*>(problem.scores) + first;
  E* const to = gradient + first;
  Cut cut = cut_row(row, problem.classes);
  // Packets need both sides aligned alike.
  if ((reinterpret_cast<std::uintptr_t>(row) ^ reinterpret_cast<std::uintptr_t>(to)) % 16 != 0) cut = {0, 0};
  const float log_sum = log_sums[blockIdx.x];
  const float factor = *scale / static_cast<float>(problem.rows);
  const auto target = static_cast<std::size_t>(problem.targets[blockIdx.x]);
  const auto at = [&](float x, std::size_t c) {
    return factor * (__expf(x - log_sum) - (c == target ? 1.0F : 0.0F));
  };
  for (std::size_t c = threadIdx.x; c < cut.before; c += kThreads)
    narrow(at(widen(row[c]), c), to[c]);
#pragma unroll 2
  for (std::size_t p = threadIdx.x; p < cut.packets; p += kThreads) {
    Packed packet = reinterpret_cast<const Packed*>(row + cut.before)[p];
    const std::size_t c = cut.before + p * Packed::kCount;
#pragma unroll
    for (int k = 0; k < Packed::kCount; ++k)
      narrow(at(widen(packet.element[k]), c + static_cast<std::size_t>(k)), packet.element[k]);
    reinterpret_cast<Packed*>(to + cut.before)[p] = packet;
  }
  for (std::size_t c = cut.before + cut.packets * Packed::kCount + threadIdx.x; c < problem.classes;
       c += kThreads)
    narrow(at(widen(row[c]), c), to[c]);
}

// Calls `body` with a null pointer to the scores' type.
template <class Body>
void with_type(DType type, const Body& body) {
  if (type == DType::bf16) return body(static_cast<__nv_bfloat16*>(nullptr));
  if (type == DType::f16) return body(static_cast<__half*>(nullptr));
  KITH_CHECK(type == DType::f32, "cross-entropy is for f32, bf16 and f16");
  body(static_cast<float*>(nullptr));
}

}  // namespace

void cross_entropy(const CudaOptions& on, const Classification& problem, float* log_sums, float* losses) {
  if (problem.rows == 0) return;
  const cuda::OnDevice here(on.device);
  const cuda::Grid grid{static_cast<unsigned>(problem.rows), kThreads, on.stream};
  with_type(problem.type, [&]<class E>(E*) {
    cuda::require(cuda::launch(sum_rows<E>, grid, problem, log_sums, losses), "cross-entropy");
  });
}

void cross_entropy_gradient(const CudaOptions& on, const Classification& problem, const float* log_sums,
                            const float* scale, void* gradient) {
  if (problem.rows == 0) return;
  const cuda::OnDevice here(on.device);
  const cuda::Grid grid{static_cast<unsigned>(problem.rows), kThreads, on.stream};
  with_type(problem.type, [&]<class E>(E*) {
    cuda::require(
        cuda::launch(differentiate_rows<E>, grid, problem, log_sums, scale, static_cast<E*>(gradient)),
        "cross-entropy's gradient");
  });
}

}  // namespace kith::kernels
