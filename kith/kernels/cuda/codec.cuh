#pragma once

#include "kith/kernels/cuda/codec.h"
#include "kith/kernels/cuda/table.h"
#include "kith/kernels/int8.h"

namespace kith::kernels::cuda {

// Codecs go by warps: lane l holds the elements 4l .. 4l+3 of each 128, whatever the alignment, since the
// order of sums (kith/kernels/codec_parts.h) follows from it.

inline constexpr unsigned kAllLanes = 0xffffffffU;

// The four elements from `at` on; zeros past the end.
template <class T>
__device__ void load_four(const T* from, std::size_t at, const CodecJob<T>& job, T (&x)[4]) {
  if (job.wide && at + 4 <= job.count) {
    if constexpr (sizeof(T) == 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + at);
      x[0] = four.x;
      x[1] = four.y;
      x[2] = four.z;
      x[3] = four.w;
    } else {
      const double2 low = *reinterpret_cast<const double2*>(from + at);
      const double2 high = *reinterpret_cast<const double2*>(from + at + 2);
      x[0] = low.x;
      x[1] = low.y;
      x[2] = high.x;
      x[3] = high.y;
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k)
    x[k] = at + k < job.count ? from[at + k] : T{0};
}

template <class T>
__device__ void store_four(const T (&x)[4], T* to, std::size_t at, const CodecJob<T>& job) {
  if (job.wide && at + 4 <= job.count) {
    if constexpr (sizeof(T) == 4) {
      *reinterpret_cast<float4*>(to + at) = make_float4(x[0], x[1], x[2], x[3]);
    } else {
      *reinterpret_cast<double2*>(to + at) = make_double2(x[0], x[1]);
      *reinterpret_cast<double2*>(to + at + 2) = make_double2(x[2], x[3]);
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (at + k < job.count) to[at + k] = x[k];
}

// x - replica, and the replica.
template <class T>
__device__ void load_difference(const CodecJob<T>& job, std::size_t at, T (&d)[4], T (&replica)[4]) {
  load_four(job.x, at, job, d);
  load_four(job.replica, at, job, replica);
#pragma unroll
  for (int k = 0; k < 4; ++k)
    d[k] = d[k] - replica[k];
}

// Word `index` of a packed part of `bytes` bytes, whose last word may be cut.
__device__ inline std::uint32_t load_word(const std::byte* packed, std::size_t bytes, std::size_t index) {
  const std::size_t at = 4 * index;
  if (at + 4 <= bytes) return *reinterpret_cast<const std::uint32_t*>(packed + at);
  std::uint32_t word = 0;
  for (int k = 0; k < 4; ++k)
    if (at + k < bytes) word |= static_cast<std::uint32_t>(packed[at + k]) << (8 * k);
  return word;
}

__device__ inline void store_word(std::uint32_t word, std::byte* packed, std::size_t bytes,
                                  std::size_t index) {
  const std::size_t at = 4 * index;
  if (at + 4 <= bytes) {
    *reinterpret_cast<std::uint32_t*>(packed + at) = word;
    return;
  }
  for (int k = 0; k < 4; ++k)
    if (at + k < bytes) packed[at + k] = static_cast<std::byte>(word >> (8 * k));
}

// Over groups of kLanes lanes; the same bits in all of them.
template <int kLanes>
__device__ double sum_of_lanes(double mine) {
#pragma unroll
  for (int half = kLanes / 2; half > 0; half /= 2)
    mine += __shfl_xor_sync(kAllLanes, mine, half);
  return mine;
}

template <int kLanes, class Word>
__device__ Word greatest_of_lanes(Word mine) {
#pragma unroll
  for (int half = kLanes / 2; half > 0; half /= 2)
    mine = max(mine, __shfl_xor_sync(kAllLanes, mine, half));
  return mine;
}

}  // namespace kith::kernels::cuda
