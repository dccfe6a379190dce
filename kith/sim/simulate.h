#pragma once

#include "kith/sim/scenario.h"
#include "kith/sim/virtual_clock.h"

namespace kith::sim {

// What a run of a scenario took, over the counted iterations.
struct Result {
  double iteration_s = 0;  // mean over workers and iterations
  double low_s = 0;        // 5% and 95% of single workers' iterations (of up to 64 workers)
  double high_s = 0;
  double waited_s = 0;   // per worker and iteration: blocked on the network or on others
  double channel_s = 0;  // per worker and iteration: its channel was busy
  double nic_bytes = 0;  // per node and iteration, in each direction
  double hidden = 1;     // share of channel_s that nobody waited for, 0 to 1
};

// The event recursion over workers, buckets and iterations. Deterministic: equal scenarios give equal bits,
// whatever the instruction set. Linear in workers x buckets x iterations where operations do not contend for
// a NIC.
Result simulate(const Scenario& scenario);

// The same, on a clock: it moves on by the time at which the last worker ends.
Result simulate(const Scenario& scenario, VirtualClock& clock);

}  // namespace kith::sim
