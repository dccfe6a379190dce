#pragma once

#include <cmath>
#include <cstdint>

#include "kith/kernels/kernels.h"

namespace kith::kernels {

// The gradient with its factor taken into its scale. REQUIRES: the factor lies in host memory.
inline Gradient with_factor(Gradient gradient) {
  if (gradient.factor != nullptr) gradient.scale *= *gradient.factor;
  gradient.factor = nullptr;
  return gradient;
}

inline double clipping_factor(double sum_of_squares, double most) {
  const double factor = most / (std::sqrt(sum_of_squares) + 1e-6);
  return factor > 1 ? 1 : factor;
}

// What the loops need of the options, prepared in double and rounded once to the type of the arithmetic. Each
// comment is the order of operations that every implementation follows; `fma` is fused wherever the
// instruction set has it.

template <class C>
struct MixScalars {
  C scale;

  explicit MixScalars(const Mix& mix) : scale(static_cast<C>(mix.scale)) {}
};

// Below, scale is the gradient's, times its factor.

// g = scale * gradient;  g = fma(decay, mixed, g) unless decay is 0
// b = first ? g : fma(momentum, b, kept * g);  d = momentum ? (nesterov ? fma(momentum, b, g) : b) : g
// next = fma(-lr, d, mixed)
template <class C>
struct SgdScalars {
  C gradient_scale, lr, momentum, kept, decay;
  bool nesterov, decays;

  SgdScalars(const Gradient& gradient, const SgdOptions& o)
      : gradient_scale(static_cast<C>(gradient.scale)),
        lr(static_cast<C>(o.lr)),
        momentum(static_cast<C>(o.momentum)),
        kept(static_cast<C>(1 - o.dampening)),
        decay(static_cast<C>(o.decay)),
        nesterov(o.nesterov),
        decays(o.decay != 0) {}
};

// g = scale * gradient
// coupled: g = fma(decay, mixed, g) unless decay is 0;  decoupled: mixed = shrink * mixed
// m = fma(b1, m, c1 * g);  v = fma(b2, v, (c2 * g) * g)
// next = fma(-rate, m / fma(sqrt(v), correction, eps), mixed)
// Accumulated: the same with temporary m and v; a = fma(share, g, a); a commit sets
// M = fma(b1, M, c1 * a), V = fma(b2, V, (c2 * a) * a), a = 0.
template <class C>
struct AdamScalars {
  C gradient_scale, b1, c1, b2, c2, rate, correction, eps, decay, shrink, share;
  bool couples, shrinks;

  // Bias correction by `updates`, the number of times that the moments have moved; `commit_every`
  // as in AccumAdamOptions.
  AdamScalars(const Gradient& gradient, const AdamOptions& o, std::int64_t updates, int commit_every)
      : gradient_scale(static_cast<C>(gradient.scale)),
        b1(static_cast<C>(o.beta1)),
        c1(static_cast<C>(1 - o.beta1)),
        b2(static_cast<C>(o.beta2)),
        c2(static_cast<C>(1 - o.beta2)),
        rate(static_cast<C>(o.lr / (1 - std::pow(o.beta1, static_cast<double>(updates))))),
        correction(static_cast<C>(1 / std::sqrt(1 - std::pow(o.beta2, static_cast<double>(updates))))),
        eps(static_cast<C>(o.eps)),
        decay(static_cast<C>(o.decay)),
        shrink(static_cast<C>(1 - o.lr * o.decay)),
        share(static_cast<C>(1.0 / commit_every)),
        couples(o.decay != 0 && o.decay_kind == Decay::coupled),
        shrinks(o.decay != 0 && o.decay_kind == Decay::decoupled) {}

  AdamScalars(const Gradient& gradient, const AdamOptions& o) : AdamScalars(gradient, o, o.step, 1) {}
  AdamScalars(const Gradient& gradient, const AccumAdamOptions& o)
      : AdamScalars(gradient, o.adam, (o.adam.step + o.commit_every - 1) / o.commit_every, o.commit_every) {}
};

}  // namespace kith::kernels
