// What happens to one vector of elements: the orders of operations of kith/kernels/scalars.h. Included once
// per target.

#include "hwy/highway.h"
#include "kith/kernels/scalars.h"

#if defined(KITH_KERNELS_STEPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KITH_KERNELS_STEPS_INL_H
#undef KITH_KERNELS_STEPS_INL_H
#else
#define KITH_KERNELS_STEPS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace kith::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A step returns the next parameters from the mixed ones, the gradient and up to three vectors of state,
// which it updates. kReads and kWrites have a bit for each state array that must be loaded before and stored
// after.

template <class T>
struct MixStep {
  static constexpr bool kGradient = false;
  static constexpr unsigned kReads = 0, kWrites = 0;

  template <class D, class V>
  HWY_INLINE V operator()(D, V mixed, V, V&, V&, V&) const {
    return mixed;
  }
};

enum class Momentum { none, first, kept };

template <class T, Momentum kMomentum>
struct SgdStep {
  static constexpr bool kGradient = true;
  static constexpr unsigned kReads = kMomentum == Momentum::kept ? 1 : 0;
  static constexpr unsigned kWrites = kMomentum == Momentum::none ? 0 : 1;
  SgdScalars<T> s;

  template <class D, class V>
  HWY_INLINE V operator()(D d, V mixed, V gradient, V& b, V&, V&) const {
    V g = hn::Mul(hn::Set(d, s.gradient_scale), gradient);
    if (s.decays) g = hn::MulAdd(hn::Set(d, s.decay), mixed, g);
    V direction = g;
    if constexpr (kMomentum != Momentum::none) {
      const V momentum = hn::Set(d, s.momentum);
      b = kMomentum == Momentum::first ? g : hn::MulAdd(momentum, b, hn::Mul(hn::Set(d, s.kept), g));
      direction = s.nesterov ? hn::MulAdd(momentum, b, g) : b;
    }
    return hn::NegMulAdd(hn::Set(d, s.lr), direction, mixed);
  }
};

// b * moment + c * g, and the same for the square.
template <class T, class D, class V>
HWY_INLINE V first_moment(const AdamScalars<T>& s, D d, V m, V g) {
  return hn::MulAdd(hn::Set(d, s.b1), m, hn::Mul(hn::Set(d, s.c1), g));
}

template <class T, class D, class V>
HWY_INLINE V second_moment(const AdamScalars<T>& s, D d, V v, V g) {
  return hn::MulAdd(hn::Set(d, s.b2), v, hn::Mul(hn::Mul(hn::Set(d, s.c2), g), g));
}

template <class T, class D, class V>
HWY_INLINE void decay(const AdamScalars<T>& s, D d, V& mixed, V& g) {
  if (s.couples) g = hn::MulAdd(hn::Set(d, s.decay), mixed, g);
  if (s.shrinks) mixed = hn::Mul(hn::Set(d, s.shrink), mixed);
}

template <class T, class D, class V>
HWY_INLINE V descend(const AdamScalars<T>& s, D d, V mixed, V m, V v) {
  const V below = hn::MulAdd(hn::Sqrt(v), hn::Set(d, s.correction), hn::Set(d, s.eps));
  return hn::NegMulAdd(hn::Set(d, s.rate), hn::Div(m, below), mixed);
}

template <class T>
struct AdamStep {
  static constexpr bool kGradient = true;
  static constexpr unsigned kReads = 3, kWrites = 3;
  AdamScalars<T> s;

  template <class D, class V>
  HWY_INLINE V operator()(D d, V mixed, V gradient, V& m, V& v, V&) const {
    V g = hn::Mul(hn::Set(d, s.gradient_scale), gradient);
    decay(s, d, mixed, g);
    m = first_moment(s, d, m, g);
    v = second_moment(s, d, v, g);
    return descend(s, d, mixed, m, v);
  }
};

template <class T, bool kCommits>
struct AccumAdamStep {
  static constexpr bool kGradient = true;
  static constexpr unsigned kReads = 7, kWrites = kCommits ? 7 : 4;
  AdamScalars<T> s;

  template <class D, class V>
  HWY_INLINE V operator()(D d, V mixed, V gradient, V& m, V& v, V& a) const {
    V g = hn::Mul(hn::Set(d, s.gradient_scale), gradient);
    decay(s, d, mixed, g);
    const V next = descend(s, d, mixed, first_moment(s, d, m, g), second_moment(s, d, v, g));
    a = hn::MulAdd(hn::Set(d, s.share), g, a);
    if constexpr (kCommits) {
      m = first_moment(s, d, m, a);
      v = second_moment(s, d, v, a);
      a = hn::Zero(d);
    }
    return next;
  }
};

}  // namespace kith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
