#pragma once

#include "kith/sim/job.h"

namespace kith::sim {

// Steady-state time per iteration with no spread at all, everybody alike: cross-checks of the simulator, and
// the quick answer to "which term rules". All times in seconds.
//   f  forward    b  backward of one bucket    u  its mix and step    n  number of equal buckets
struct EqualBuckets {
  double forward_s = 0;
  double backward_s = 0;
  double step_s = 0;
  int count = 1;
};

// All-reduce of `all_reduce_s` a bucket, overlapped with backward:  max(f + n b + g, f + b + n g) + n u.
double all_reduce_iteration_s(const EqualBuckets& job, double all_reduce_s);

// Mixing, in backward or in step(), every round `mix_s` a bucket on one channel:  max(f + n (b + u), n m, m +
// u). The three cycles are computing an iteration, the channel, and one bucket's travel and mix.
double mix_iteration_s(const EqualBuckets& job, double mix_s);

// Mean of the largest of n standard normal values, n >= 1: what a barrier pays for spread. Numerical, to
// about 1e-6.
double expected_normal_maximum(int n);

}  // namespace kith::sim
