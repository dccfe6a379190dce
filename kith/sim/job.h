#pragma once

#include <vector>

#include "kith/sim/distribution.h"

namespace kith::sim {

// One bucket, in backward order.
struct Bucket {
  double bytes = 0;  // of parameters, as fp32
  Distribution backward;
  Distribution step;  // mix and optimiser
};

// A worker that falls behind now and then: with this probability in an iteration its forward takes `delay`
// longer.
struct Straggler {
  double probability = 0;
  Distribution delay;
};

// What one worker computes in an iteration.
struct Job {
  Distribution forward;
  std::vector<Bucket> buckets;
  // Multiplies a worker's forward and backward times of one iteration together (batches that differ in
  // length), mean 1.
  Distribution batch = Distribution::constant(1);
  // By rank: how many times as long as the profile's worker this one takes. Empty: everybody alike.
  std::vector<double> slowness;
  Straggler straggler;
  // Computing time that a worker loses to a byte that it sends to another node while one comes in, when both
  // travel under forward or backward.
  double message_s_per_byte = 0;

  double bytes() const;
  double forward_backward_s() const;  // means
  double step_s() const;
  double compute_s() const { return forward_backward_s() + step_s(); }

  // The same means, every time constant and nobody straggling.
  Job without_spread() const;
  // Forward and backward times multiplied by a factor.
  Job with_compute_scaled(double factor) const;
};

}  // namespace kith::sim
