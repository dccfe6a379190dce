#pragma once

#include "kith/kernels/cuda/elements.cuh"
#include "kith/kernels/cuda/steps.cuh"
#include "kith/kernels/cuda/table.h"

namespace kith::kernels::cuda {

template <class T>
__device__ float scale_at(const DeviceSource<T>& source, const BlockLane& p) {
  return source.type == DType::i8 ? *scale_place(source.data, p) : 0.0F;
}

template <class T, Order kOrder>
__device__ void add(const DeviceSource<T>& source, const Raw<T>& raw, float scale, const BlockLane& p,
                    bool is_first, T (&sum)[4]) {
  T x[4];
  convert<T, kOrder>(raw, source.type, scale, x);
  if (source.rounded_to != kNotRounded) round_to<T, kOrder>(source.rounded_to, source.draw, p, x);
#pragma unroll
  for (int k = 0; k < 4; ++k)
    sum[k] = is_first ? source.weight * x[k] : multiply_add(source.weight, x[k], sum[k]);
}

template <class T, Order kOrder>
__device__ void load_state(const T* state, const BlockLane& p, T (&x)[4]) {
  constexpr DType kOwn = dtype_of<T>();
  convert<T, kOrder>(fetch<T, kOrder>(state, kOwn, p), kOwn, 0.0F, x);
}

// One block of one pass by one warp. All loads come before all stores: the destination may be a source.
template <int kSources, Order kOrder, class T, class Step>
__device__ void run_block(const Item<T>& item, const DeviceSource<T>* sources, const Step& step,
                          const BlockLane& p) {
  constexpr int kFetched = kSources == 0 ? 1 : kSources;
  Raw<T> raw[kFetched];
  float scale[kFetched];
  if constexpr (kSources > 0) {
#pragma unroll
    for (int k = 0; k < kSources; ++k) {
      raw[k] = fetch<T, kOrder>(sources[k].data, sources[k].type, p);
      scale[k] = scale_at(sources[k], p);
    }
  }
  Raw<T> raw_gradient{};
  T s0[4]{}, s1[4]{}, s2[4]{};
  if constexpr (Step::kGradient) raw_gradient = fetch<T, kOrder>(item.gradient, item.gradient_type, p);
  if constexpr ((Step::kReads & 1) != 0) load_state<T, kOrder>(item.state[0], p, s0);
  if constexpr ((Step::kReads & 2) != 0) load_state<T, kOrder>(item.state[1], p, s1);
  if constexpr ((Step::kReads & 4) != 0) load_state<T, kOrder>(item.state[2], p, s2);

  T x[4]{}, gradient[4]{};
  if constexpr (kSources > 0) {
#pragma unroll
    for (int k = 0; k < kSources; ++k)
      add<T, kOrder>(sources[k], raw[k], scale[k], p, k == 0, x);
  } else {
    for (int k = 0; k < item.sources; ++k) {
      raw[0] = fetch<T, kOrder>(sources[k].data, sources[k].type, p);
      add<T, kOrder>(sources[k], raw[0], scale_at(sources[k], p), p, k == 0, x);
    }
  }
  if constexpr (Step::kGradient) convert<T, kOrder>(raw_gradient, item.gradient_type, 0.0F, gradient);
#pragma unroll
  for (int k = 0; k < 4; ++k)
    x[k] = step(item.mix_scale * x[k], gradient[k], s0[k], s1[k], s2[k]);

  if constexpr ((Step::kWrites & 1) != 0) store<T, kOrder>(s0, item.state[0], p);
  if constexpr ((Step::kWrites & 2) != 0) store<T, kOrder>(s1, item.state[1], p);
  if constexpr ((Step::kWrites & 4) != 0) store<T, kOrder>(s2, item.state[2], p);
  if (item.values != nullptr) store<T, kOrder>(x, item.values, p);
  if (item.encoded == nullptr) return;
  if constexpr (kOrder == Order::strided) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (!p.has<kOrder>(k)) x[k] = 0;
  }
  store_encoded<T, kOrder>(x, item.encoded, item.encoded_type, item.draw, p);
}

template <int kSources, class T, class Step>
__device__ void run_tile(const Item<T>& item, const DeviceSource<T>* sources, const Step& step,
                         std::size_t first) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::size_t end = min(first + kTile, item.count);
  for (first += threadIdx.x / kWarp * kBlock; first < end; first += kThreads / kWarp * kBlock) {
    if (item.wide && end - first >= kBlock) {
      run_block<kSources, Order::wide>(item, sources, step, {first, lane, kBlock});
    } else {
      run_block<0, Order::strided>(item, sources, step,
                                   {first, lane, static_cast<int>(min(end - first, kBlock))});
    }
  }
}

template <int kSources, class T, class TableOfT>
__global__ void __launch_bounds__(kThreads) fused(const __grid_constant__ TableOfT table) {
  std::uint32_t low = 0;
  for (std::uint32_t high = table.items - 1; low < high;) {
    const std::uint32_t middle = (low + high + 1) / 2;
    if (table.item[middle].first_tile <= blockIdx.x) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const Item<T>& item = table.item[low];
  const DeviceSource<T>* const sources = table.source + item.first_source;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x - item.first_tile) * kTile;
  if (item.kind == Kind::mix) return run_tile<kSources>(item, sources, MixStep<T>{}, first);

  const SgdScalars<T>& sgd = item.scalars.sgd;
  const AdamScalars<T>& adam = item.scalars.adam;
  const double factor = item.factor == nullptr ? 1.0 : *item.factor;
  const T scale = static_cast<T>(item.gradient_scale * factor);
  switch (item.kind) {
    case Kind::mix:
      break;
    case Kind::sgd:
      return run_tile<kSources>(item, sources, SgdStep<T, Momentum::none>{sgd, scale}, first);
    case Kind::sgd_first:
      return run_tile<kSources>(item, sources, SgdStep<T, Momentum::first>{sgd, scale}, first);
    case Kind::sgd_momentum:
      return run_tile<kSources>(item, sources, SgdStep<T, Momentum::kept>{sgd, scale}, first);
    case Kind::adam:
      return run_tile<kSources>(item, sources, AdamStep<T>{adam, scale}, first);
    case Kind::accum_adam:
      return run_tile<kSources>(item, sources, AccumAdamStep<T, false>{adam, scale}, first);
    case Kind::accum_adam_commit:
      return run_tile<kSources>(item, sources, AccumAdamStep<T, true>{adam, scale}, first);
  }
}

}  // namespace kith::kernels::cuda
