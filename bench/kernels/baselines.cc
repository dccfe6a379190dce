#include "bench/kernels/baselines.h"

#include "kith/kernels/scalars.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/kernels/baselines.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before everything that is compiled once per target.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kith::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// REQUIRES of all loops here: aligned arrays, and a count that is a multiple of the vector.

template <Stores kStores>
void bare(const Arrays& given) {
  const Arrays x = given;
  const D d;
  for (std::size_t i = 0; i < x.count; i += hn::Lanes(d)) {
    const V a = hn::Load(d, x.accumulator + i);
    const V models = hn::Add(hn::Load(d, x.self + i), hn::Load(d, x.peer + i));
    const V moments = hn::Add(hn::Load(d, x.m + i), hn::Load(d, x.v + i));
    const V sum = hn::Add(hn::Add(models, hn::Load(d, x.gradient + i)), hn::Add(moments, a));
    hn::Store(hn::Neg(a), d, x.accumulator + i);
    if constexpr (kStores == Stores::streamed) {
      hn::Stream(sum, d, x.next + i);
    } else {
      hn::Store(sum, d, x.next + i);
    }
  }
  if (kStores == Stores::streamed) hwy::FlushStream();
}

void bare_loop(const Arrays& arrays, Stores stores) {
  stores == Stores::streamed ? bare<Stores::streamed>(arrays) : bare<Stores::cached>(arrays);
}

template <class Operation, class... In>
void pass(std::size_t count, float* to, const Operation& operation, const In*... in) {
  const D d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::Store(operation(hn::Load(d, in + i)...), d, to + i);
  }
}

void passes_loop(const Arrays& x, const kernels::AdamScalars<float>& s) {
  const D d;
  const std::size_t n = x.count;
  const V half = hn::Set(d, 0.5F), shrink = hn::Set(d, s.shrink), share = hn::Set(d, s.share);
  const V b1 = hn::Set(d, s.b1), c1 = hn::Set(d, s.c1), b2 = hn::Set(d, s.b2), c2 = hn::Set(d, s.c2);
  const V correction = hn::Set(d, s.correction), eps = hn::Set(d, s.eps), rate = hn::Set(d, -s.rate);
  const float *self = x.self, *direction = x.direction, *denominator = x.denominator;
  const float *m = x.m, *v = x.v, *accumulator = x.accumulator;

  pass(
      n, x.self, [&](V a) HWY_ATTR { return hn::Mul(a, half); }, self);
  pass(
      n, x.self, [&](V a, V b) HWY_ATTR { return hn::MulAdd(b, half, a); }, self, x.peer);
  pass(
      n, x.self, [&](V a) HWY_ATTR { return hn::Mul(a, shrink); }, self);
  pass(
      n, x.accumulator, [&](V a, V g) HWY_ATTR { return hn::MulAdd(g, share, a); }, accumulator, x.gradient);
  pass(
      n, x.direction, [&](V a) HWY_ATTR { return hn::Mul(a, b1); }, m);
  pass(
      n, x.direction, [&](V a, V g) HWY_ATTR { return hn::MulAdd(g, c1, a); }, direction, x.gradient);
  pass(
      n, x.denominator, [&](V a) HWY_ATTR { return hn::Mul(a, b2); }, v);
  pass(
      n, x.denominator, [&](V a, V g) HWY_ATTR { return hn::MulAdd(hn::Mul(g, g), c2, a); }, denominator,
      x.gradient);
  pass(
      n, x.denominator, [&](V a) HWY_ATTR { return hn::Sqrt(a); }, denominator);
  pass(
      n, x.denominator, [&](V a) HWY_ATTR { return hn::Mul(a, correction); }, denominator);
  pass(
      n, x.denominator, [&](V a) HWY_ATTR { return hn::Add(a, eps); }, denominator);
  pass(
      n, x.self, [&](V a, V u, V w) HWY_ATTR { return hn::MulAdd(hn::Div(u, w), rate, a); }, self, direction,
      denominator);
  pass(
      n, x.next, [&](V a) HWY_ATTR { return a; }, self);
}

}  // namespace kith::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kith::bench {

HWY_EXPORT(bare_loop);
HWY_EXPORT(passes_loop);

void bare_pass(const Arrays& arrays, Stores stores) {
  HWY_DYNAMIC_DISPATCH(bare_loop)(arrays, stores);
}

std::vector<Pass> list_of_passes() {
  return {{"x *= w_self", 1, 1},         {"x += w_peer * peer", 2, 1},
          {"x *= 1 - lr * decay", 1, 1}, {"a += gradient / s", 2, 1},
          {"m' = b1 * m", 1, 1},         {"m' += (1 - b1) * g", 2, 1},
          {"v' = b2 * v", 1, 1},         {"v' += (1 - b2) * g * g", 2, 1},
          {"v' = sqrt(v')", 1, 1},       {"v' *= correction", 1, 1},
          {"v' += eps", 1, 1},           {"x -= rate * m' / v'", 3, 1},
          {"slot = x (publish)", 1, 1}};
}

void separate_passes(const Arrays& arrays, const kernels::AccumAdamOptions& options) {
  HWY_DYNAMIC_DISPATCH(passes_loop)(arrays, kernels::AdamScalars<float>(kernels::Gradient{}, options));
}

}  // namespace kith::bench
#endif
