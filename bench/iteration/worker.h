#pragma once

#include <string>

#include "bench/common/problem.h"

namespace kith::bench {

struct WorkerOptions {
  int rank = 0;
  int workers = 1;
  std::string folder;  // where the workers meet
  Problem problem;
};

// One worker process of kith: holds a model per mode (none, exp, aer, allreduce) and takes turns with the
// others.
//   run MODE UNTIMED TIMED  -> a Lap     memory  -> "memory BYTES_PER_PARAMETER"
// Returns the exit code when the orders end.
int run_worker(const WorkerOptions& options);

}  // namespace kith::bench
