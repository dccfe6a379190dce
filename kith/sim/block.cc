#include "kith/sim/block.h"

#include "kith/sim/vector_target.h"

namespace kith::sim {
namespace {

enum class Recursion { mix_in_backward, mix_at_step, gradients, step };

KITH_SIM_INLINE double later(double a, double b) {
  return a < b ? b : a;
}

// now = max(now, arrival) + step of bucket b, for one lane.
KITH_SIM_INLINE void mix_lane(const BlockTimes& times, std::size_t b, std::size_t lane, double* __restrict at,
                              double* __restrict when, double* __restrict waited) {
  const std::size_t i = b * kLanes + lane;
  const double free = later(at[lane], when[i]);
  waited[lane] += free - at[lane];
  at[lane] = free + times.step_mean[b] * times.step[i] * times.slowness[lane];
  when[i] = at[lane];
}

template <Recursion kRecursion>
KITH_SIM_INLINE void body(const BlockTimes& times, double* __restrict now, double* __restrict when,
                          double* __restrict waited) {
  double at[kLanes];
  double lost[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    at[lane] = now[lane];
    lost[lane] = 0;
    if constexpr (kRecursion != Recursion::step) at[lane] += times.forward[lane];
  }
  for (std::size_t b = 0; b < times.buckets; ++b) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::size_t i = b * kLanes + lane;
      if constexpr (kRecursion != Recursion::step)
        at[lane] += times.backward_mean[b] * times.backward[i] * times.pace[lane];
      if constexpr (kRecursion == Recursion::mix_in_backward) mix_lane(times, b, lane, at, when, lost);
      if constexpr (kRecursion == Recursion::gradients) when[i] = later(when[i], at[lane]);
      if constexpr (kRecursion == Recursion::step)
        at[lane] += times.step_mean[b] * times.step[i] * times.slowness[lane];
    }
  }
  if constexpr (kRecursion == Recursion::mix_at_step) {
    for (std::size_t b = 0; b < times.buckets; ++b) {
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        mix_lane(times, b, lane, at, when, lost);
    }
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    now[lane] = at[lane];
    if constexpr (kRecursion == Recursion::mix_in_backward || kRecursion == Recursion::mix_at_step)
      waited[lane] += lost[lane];
  }
}

template <Recursion kRecursion>
KITH_SIM_AVX512 void run_avx512(const BlockTimes& t, double* now, double* when, double* waited) {
  body<kRecursion>(t, now, when, waited);
}
template <Recursion kRecursion>
KITH_SIM_AVX2 void run_avx2(const BlockTimes& t, double* now, double* when, double* waited) {
  body<kRecursion>(t, now, when, waited);
}

template <Recursion kRecursion>
void run(const BlockTimes& times, double* now, double* when, double* waited, VectorTarget target) {
  switch (target) {
    case VectorTarget::avx512:
      return run_avx512<kRecursion>(times, now, when, waited);
    case VectorTarget::avx2:
      return run_avx2<kRecursion>(times, now, when, waited);
    case VectorTarget::plain:
      return body<kRecursion>(times, now, when, waited);
  }
}

}  // namespace

void mix_in_backward(const BlockTimes& times, double* now, double* when, double* waited,
                     VectorTarget target) {
  run<Recursion::mix_in_backward>(times, now, when, waited, target);
}

void mix_at_step(const BlockTimes& times, double* now, double* when, double* waited, VectorTarget target) {
  run<Recursion::mix_at_step>(times, now, when, waited, target);
}

void run_gradients(const BlockTimes& times, double* now, double* latest, VectorTarget target) {
  run<Recursion::gradients>(times, now, latest, nullptr, target);
}

void run_step(const BlockTimes& times, double* now, VectorTarget target) {
  run<Recursion::step>(times, now, nullptr, nullptr, target);
}

}  // namespace kith::sim
