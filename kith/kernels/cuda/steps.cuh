#pragma once

#include "kith/kernels/scalars.h"

namespace kith::kernels::cuda {

// What happens to one element: the orders of operations of kith/kernels/scalars.h. A step returns the next
// parameter from the mixed one, the gradient and up to three elements of state, which it updates. kReads and
// kWrites have a bit for each state array that must be loaded before and stored after.

template <class T>
__device__ T multiply_add(T a, T b, T c) {
  if constexpr (sizeof(T) == 4) {
    return __fmaf_rn(a, b, c);
  } else {
    return __fma_rn(a, b, c);
  }
}

template <class T>
__device__ T root(T x) {
  if constexpr (sizeof(T) == 4) {
    return __fsqrt_rn(x);
  } else {
    return __dsqrt_rn(x);
  }
}

template <class T>
struct MixStep {
  static constexpr bool kGradient = false;
  static constexpr unsigned kReads = 0, kWrites = 0;

  __device__ T operator()(T mixed, T, T&, T&, T&) const { return mixed; }
};

enum class Momentum { none, first, kept };

template <class T, Momentum kMomentum>
struct SgdStep {
  static constexpr bool kGradient = true;
  static constexpr unsigned kReads = kMomentum == Momentum::kept ? 1 : 0;
  static constexpr unsigned kWrites = kMomentum == Momentum::none ? 0 : 1;
  const SgdScalars<T>& s;
  T gradient_scale;

  __device__ T operator()(T mixed, T gradient, T& b, T&, T&) const {
    T g = gradient_scale * gradient;
    if (s.decays) g = multiply_add(s.decay, mixed, g);
    T direction = g;
    if constexpr (kMomentum != Momentum::none) {
      b = kMomentum == Momentum::first ? g : multiply_add(s.momentum, b, s.kept * g);
      direction = s.nesterov ? multiply_add(s.momentum, b, g) : b;
    }
    return multiply_add(-s.lr, direction, mixed);
  }
};

template <class T>
__device__ T first_moment(const AdamScalars<T>& s, T m, T g) {
  return multiply_add(s.b1, m, s.c1 * g);
}

template <class T>
__device__ T second_moment(const AdamScalars<T>& s, T v, T g) {
  return multiply_add(s.b2, v, (s.c2 * g) * g);
}

template <class T>
__device__ void decay(const AdamScalars<T>& s, T& mixed, T& g) {
  if (s.couples) g = multiply_add(s.decay, mixed, g);
  if (s.shrinks) mixed = s.shrink * mixed;
}

template <class T>
__device__ T descend(const AdamScalars<T>& s, T mixed, T m, T v) {
  const T below = multiply_add(root(v), s.correction, s.eps);
  return multiply_add(-s.rate, m / below, mixed);
}

template <class T>
struct AdamStep {
  static constexpr bool kGradient = true;
  static constexpr unsigned kReads = 3, kWrites = 3;
  const AdamScalars<T>& s;
  T gradient_scale;

  __device__ T operator()(T mixed, T gradient, T& m, T& v, T&) const {
    T g = gradient_scale * gradient;
    decay(s, mixed, g);
    m = first_moment(s, m, g);
    v = second_moment(s, v, g);
    return descend(s, mixed, m, v);
  }
};

template <class T, bool kCommits>
struct AccumAdamStep {
  static constexpr bool kGradient = true;
  static constexpr unsigned kReads = 7, kWrites = kCommits ? 7 : 4;
  const AdamScalars<T>& s;
  T gradient_scale;

  __device__ T operator()(T mixed, T gradient, T& m, T& v, T& a) const {
    T g = gradient_scale * gradient;
    decay(s, mixed, g);
    const T next = descend(s, mixed, first_moment(s, m, g), second_moment(s, v, g));
    a = multiply_add(s.share, g, a);
    if constexpr (kCommits) {
      m = first_moment(s, m, a);
      v = second_moment(s, v, a);
      a = 0;
    }
    return next;
  }
};

}  // namespace kith::kernels::cuda
