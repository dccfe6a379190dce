#pragma once

#include "bench/cluster/contest.h"

namespace kith::bench {

// What the recursion of kith/sim is given: measured on this machine in the same run.
struct Measured {
  double local_seconds = 0;       // an iteration that waits for nobody
  double local_step_seconds = 0;  // of it, the part in step()
  double link_bytes_per_second = 0;
};

// Seconds per iteration of aer in fp32 with the workers' placement on the hosts as its shape.
double predict_aer(const Setup& setup, const Measured& measured);

}  // namespace kith::bench
