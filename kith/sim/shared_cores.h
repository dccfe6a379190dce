#pragma once

#include "kith/sim/scenario.h"
#include "kith/sim/simulate.h"

namespace kith::sim {

// Workers that run on fewer processors than there are workers: hosts of a lab on one machine, or several
// workers on a few cores. Whoever computes gets an equal share, at most one core; whoever waits leaves its
// share to the others.
struct SharedCores {
  int cores = 1;
  // Processor time of each byte that a worker sends to, or gets from, another node. Threads of its own spend
  // it, beside the model's, so that it is free where a core is.
  double seconds_per_byte = 0;
  // Time of the model's own thread for each byte of a bucket that it mixes or all-reduces, beyond the job's
  // step: passes over memory (a neighbour's model, a staged copy, what hops leave behind), which nothing
  // hides.
  double mixing_seconds_per_byte = 0;
};

// The scenario on shared cores. The job's times are processor times: what a worker takes alone on a core.
// Every time is its mean (no spread). A message of a pair or of a neighbour leaves when it is published, as
// kith's do; a group of more begins when its last member has published. A node's messages leave one after the
// other; what enters a node at the same time shares its NIC. For small worlds: it costs O(workers + flows)
// for every event.
Result simulate_shared(const Scenario& scenario, const SharedCores& shared);

}  // namespace kith::sim
