// GELU and its slope. Included once per target (no #pragma once).

#include <algorithm>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

#if defined(KITH_KERNELS_GELU_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KITH_KERNELS_GELU_INL_H
#undef KITH_KERNELS_GELU_INL_H
#else
#define KITH_KERNELS_GELU_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace kith::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Phi(-|x|) = exp(-x^2/2) t P(t) with t = 1 / (1 + 0.26 |x|). P was fitted to a relative error of 2.5e-8 for
// |x| up to 14, where Phi(-|x|) is less than the least float. One exponential serves value and slope.
template <class D>
HWY_INLINE hn::Vec<D> gelu_of(D d, hn::Vec<D> x, hn::Vec<D>& slope) {
  const auto c = [d](float value) { return hn::Set(d, value); };
  const auto density = hn::Exp(d, hn::Mul(c(-0.5F), hn::Mul(x, x)));  // times sqrt(2 pi)
  const auto t = hn::Div(c(1), hn::MulAdd(c(0.26F), hn::Abs(x), c(1)));
  auto p = c(0.03050494169F);
  p = hn::MulAdd(p, t, c(-0.1528291F));
  p = hn::MulAdd(p, t, c(0.2514918556F));
  p = hn::MulAdd(p, t, c(-0.1509496043F));
  p = hn::MulAdd(p, t, c(0.1609482896F));
  p = hn::MulAdd(p, t, c(0.05102750236F));
  p = hn::MulAdd(p, t, c(0.103030298F));
  p = hn::MulAdd(p, t, c(0.1030167446F));
  p = hn::MulAdd(p, t, c(0.1037590602F));
  const auto tail = hn::Mul(hn::Mul(p, t), density);
  const auto phi = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(c(1), tail));
  slope = hn::MulAdd(hn::Mul(x, c(0.3989422804F)), density, phi);
  return hn::Mul(x, phi);
}

inline void gelu(const float* x, float* y, float* slope, std::size_t count) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  auto slopes = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(gelu_of(d, hn::LoadU(d, x + i), slopes), d, y + i);
    hn::StoreU(slopes, d, slope + i);
  }
  if (i == count) return;
  HWY_ALIGN float part[HWY_MAX_BYTES / sizeof(float)] = {};
  std::copy(x + i, x + count, part);
  hn::Store(gelu_of(d, hn::Load(d, part), slopes), d, part);
  std::copy(part, part + (count - i), y + i);
  hn::Store(slopes, d, part);
  std::copy(part, part + (count - i), slope + i);
}

}  // namespace kith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
