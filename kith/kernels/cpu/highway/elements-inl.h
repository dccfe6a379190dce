// Vectors of float or double from and to elements of any type. Included once per target (no #pragma once).

#include <cstring>

#include "hwy/highway.h"
#include "kith/base/dtype.h"

#if defined(KITH_KERNELS_ELEMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KITH_KERNELS_ELEMENTS_INL_H
#undef KITH_KERNELS_ELEMENTS_INL_H
#else
#define KITH_KERNELS_ELEMENTS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace kith::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Floats = hn::Rebind<float, D>;
template <class D>
using Words = hn::Rebind<std::uint32_t, D>;
template <class D>
using Halves = hn::Rebind<std::uint16_t, D>;

// The formulas of kith/kernels/half.h, lane by lane.

template <class DF, class VU>
HWY_INLINE hn::Vec<DF> floats_from_bf16(DF df, VU bits) {
  return hn::BitCast(df, hn::ShiftLeft<16>(bits));
}

template <class DF, class VU>
HWY_INLINE hn::Vec<DF> floats_from_f16(DF df, VU bits) {
  const Words<DF> du;
  const hn::Rebind<std::int32_t, DF> di;
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000U)));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffU));
  const auto signed_magnitude = hn::BitCast(di, magnitude);
  const auto special = hn::Gt(signed_magnitude, hn::Set(di, 0x7bff));
  const auto rebias = hn::IfThenElse(special, hn::Set(di, 0x70000000), hn::Set(di, 0x38000000));
  const auto normal = hn::Add(hn::ShiftLeft<13>(signed_magnitude), rebias);
  const auto tiny = hn::Mul(hn::ConvertTo(df, signed_magnitude), hn::Set(df, 0x1.0p-24F));
  const auto subnormal = hn::Lt(signed_magnitude, hn::Set(di, 0x0400));
  const auto either = hn::IfThenElse(subnormal, hn::BitCast(di, tiny), normal);
  return hn::BitCast(df, hn::Or(hn::BitCast(du, either), sign));
}

template <class DF>
HWY_INLINE hn::Vec<Words<DF>> bf16_from_floats(DF, hn::Vec<DF> values) {
  const Words<DF> du;
  const hn::Rebind<std::int32_t, DF> di;
  const auto bits = hn::BitCast(du, values);
  const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7fffU)), last));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40U));
  const auto magnitude = hn::BitCast(di, hn::And(bits, hn::Set(du, 0x7fffffffU)));
  const auto is_nan = hn::RebindMask(du, hn::Gt(magnitude, hn::Set(di, 0x7f800000)));
  return hn::IfThenElse(is_nan, quiet, rounded);
}

template <class DF>
HWY_INLINE hn::Vec<Words<DF>> f16_from_floats(DF df, hn::Vec<DF> values) {
  const Words<DF> du;
  const hn::Rebind<std::int32_t, DF> di;
  const auto bits = hn::BitCast(du, values);
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000U));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffU));
  const auto order = hn::BitCast(di, magnitude);
  const auto last = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1U));
  const auto normal =
      hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, hn::Set(du, 0xfffU - 0x38000000U)), last));
  const auto grid = hn::Add(hn::BitCast(df, magnitude), hn::Set(df, 0.5F));
  const auto subnormal = hn::Sub(hn::BitCast(du, grid), hn::Set(du, 0x3f000000U));
  const auto payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3ffU));
  const auto nan = hn::Or(payload, hn::Set(du, 0x7e00U));
  auto half = hn::IfThenElse(hn::RebindMask(du, hn::Lt(order, hn::Set(di, 0x38800000))), subnormal, normal);
  half =
      hn::IfThenElse(hn::RebindMask(du, hn::Gt(order, hn::Set(di, 0x477fffff))), hn::Set(du, 0x7c00U), half);
  half = hn::IfThenElse(hn::RebindMask(du, hn::Gt(order, hn::Set(di, 0x7f800000))), nan, half);
  return hn::Or(half, sign);
}

// The first lanes of `from`, each rounded to nearest.
template <class DF>
HWY_INLINE hn::Vec<DF> floats_from_doubles(DF df, const double* from) {
  HWY_ALIGN float narrow[hn::MaxLanes(DF())];
  for (std::size_t k = 0; k < hn::Lanes(df); ++k)
    narrow[k] = static_cast<float>(from[k]);
  return hn::Load(df, narrow);
}

// Highway's emulated targets clamp to the largest float instead of overflowing to infinity.
template <class DD>
HWY_INLINE hn::Vec<Floats<DD>> nearest_floats(DD dd, hn::Vec<DD> values) {
  const Floats<DD> df;
  if constexpr (HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128) {
    HWY_ALIGN double wide[hn::MaxLanes(DD())];
    hn::Store(values, dd, wide);
    return floats_from_doubles(df, wide);
  } else {
    return hn::DemoteTo(df, values);
  }
}

template <class DD>
HWY_INLINE hn::Vec<Floats<DD>> odd_floats(DD dd, hn::Vec<DD> values) {
  const Floats<DD> df;
  const hn::Rebind<std::int32_t, DD> di;
  const auto nearest = nearest_floats(dd, values);
  const auto back = hn::PromoteTo(dd, nearest);
  const auto one = hn::Set(dd, 1.0);
  const auto beyond = hn::DemoteTo(di, hn::IfThenElseZero(hn::Gt(hn::Abs(back), hn::Abs(values)), one));
  const auto inexact = hn::DemoteTo(di, hn::IfThenZeroElse(hn::Eq(back, values), one));
  return hn::BitCast(df, hn::Or(hn::Sub(hn::BitCast(di, nearest), beyond), inexact));
}

// Lanes(d) elements of `type`, from element i on.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const void* data, DType type, std::size_t i) {
  using T = hn::TFromD<D>;
  const Floats<D> df;
  const Halves<D> dh;
  const auto widen = [&](hn::Vec<Floats<D>> floats) HWY_ATTR {
    if constexpr (sizeof(T) == 8) {
      return hn::PromoteTo(d, floats);
    } else {
      return floats;
    }
  };
  switch (type) {
    case DType::f32:
      return widen(hn::LoadU(df, static_cast<const float*>(data) + i));
    case DType::bf16: {
      const auto bits = hn::LoadU(dh, static_cast<const std::uint16_t*>(data) + i);
      return widen(floats_from_bf16(df, hn::PromoteTo(Words<D>(), bits)));
    }
    case DType::f16: {
      const auto bits = hn::LoadU(dh, static_cast<const std::uint16_t*>(data) + i);
      return widen(floats_from_f16(df, hn::PromoteTo(Words<D>(), bits)));
    }
    case DType::f64:
    case DType::i8:  // decoded before it gets here (cpu/staging.h)
      break;
  }
  const double* from = static_cast<const double*>(data) + i;
  if constexpr (sizeof(T) == 8) {
    return hn::LoadU(d, from);
  } else {
    return floats_from_doubles(d, from);
  }
}

// The opposite, rounding once to nearest even. REQUIRES: `type` is f64 only when D is of doubles.
template <class D>
HWY_INLINE void store(D d, hn::Vec<D> values, void* data, DType type, std::size_t i) {
  using T = hn::TFromD<D>;
  const Floats<D> df;
  if constexpr (sizeof(T) == 8) {
    if (type == DType::f64) return hn::StoreU(values, d, static_cast<double*>(data) + i);
  }
  const auto narrow = [&] HWY_ATTR {
    if constexpr (sizeof(T) == 8) {
      return odd_floats(d, values);
    } else {
      return values;
    }
  };
  if (type == DType::f32) {
    if constexpr (sizeof(T) == 8) {
      hn::StoreU(nearest_floats(d, values), df, static_cast<float*>(data) + i);
    } else {
      hn::StoreU(values, d, static_cast<float*>(data) + i);
    }
    return;
  }
  const hn::Rebind<std::int32_t, D> di;
  const auto bits = type == DType::bf16 ? bf16_from_floats(df, narrow()) : f16_from_floats(df, narrow());
  const Halves<D> dh;
  hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, bits)), dh, static_cast<std::uint16_t*>(data) + i);
}

// The same for the first n <= Lanes(d) lanes; the other lanes load as zero. Rare, and called from many loops.
template <class D>
HWY_NOINLINE hn::Vec<D> load_part(D d, const void* data, DType type, std::size_t i, std::size_t n) {
  HWY_ALIGN std::byte whole[8 * hn::MaxLanes(D())] = {};
  std::memcpy(whole, static_cast<const std::byte*>(data) + i * size_of(type), n * size_of(type));
  return load(d, whole, type, 0);
}

template <class D>
HWY_NOINLINE void store_part(D d, hn::Vec<D> values, void* data, DType type, std::size_t i, std::size_t n) {
  HWY_ALIGN std::byte whole[8 * hn::MaxLanes(D())];
  store(d, values, whole, type, 0);
  std::memcpy(static_cast<std::byte*>(data) + i * size_of(type), whole, n * size_of(type));
}

}  // namespace kith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
