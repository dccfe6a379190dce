#include <algorithm>

#include "kith/kernels/cuda/elements.cuh"
#include "kith/kernels/cuda/launch.cuh"
#include "kith/kernels/cuda/reduce.h"

namespace kith::kernels::cuda {
namespace {

struct Cast {
  void* to;
  const void* from;
  std::size_t count;
  DType to_type;
  DType from_type;
  bool wide;
};

template <class T, Order kOrder>
__device__ void cast_block(const Cast& cast, const BlockLane& p) {
  T x[4];
  convert<T, kOrder>(fetch<T, kOrder>(cast.from, cast.from_type, p), cast.from_type, 0.0F, x);
  if (cast.to_type == DType::f64) {
    const double wide[4]{x[0], x[1], x[2], x[3]};
    store<double, kOrder>(wide, static_cast<double*>(cast.to), p);
  } else if (cast.to_type == DType::f32) {
    const float narrow[4]{static_cast<float>(x[0]), static_cast<float>(x[1]), static_cast<float>(x[2]),
                          static_cast<float>(x[3])};
    store<float, kOrder>(narrow, static_cast<float*>(cast.to), p);
  } else {
    store_encoded<T, kOrder>(x, cast.to, cast.to_type, 0, p);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) cast_elements(const Cast cast) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::size_t step = std::size_t{gridDim.x} * kThreads / kWarp * kBlock;
  std::size_t first = (std::size_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp * kBlock;
  for (; first < cast.count; first += step) {
    if (cast.wide && cast.count - first >= kBlock) {
      cast_block<T, Order::wide>(cast, {first, lane, kBlock});
    } else {
      cast_block<T, Order::strided>(cast, {first, lane, static_cast<int>(min(cast.count - first, kBlock))});
    }
  }
}

bool aligned_for_four(const void* data, DType type) {
  return reinterpret_cast<std::uintptr_t>(data) % std::min<std::size_t>(16, 4 * size_of(type)) == 0;
}

}  // namespace

cudaError_t launch_convert(void* to, DType to_type, const void* from, DType from_type, std::size_t count,
                           cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const Cast cast{to,      from,      count,
                  to_type, from_type, aligned_for_four(to, to_type) && aligned_for_four(from, from_type)};
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>((count + kTile - 1) / kTile, 1 << 20));
  const bool in_double = to_type == DType::f64 || from_type == DType::f64;
  return launch(in_double ? cast_elements<double> : cast_elements<float>, {blocks, kThreads, stream}, cast);
}

}  // namespace kith::kernels::cuda
