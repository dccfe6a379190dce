#pragma once

#include <string>

#include "bench/gpu_training/job.h"

namespace kith::bench {

struct GpuWorkerOptions {
  int rank = 0;
  int workers = 1;
  std::string folder;  // where the workers meet
  GpuJob job;
};

// One worker process of kith; holds a model per mode, from the first order that names it.
//   run MODE UNTIMED TIMED  -> a Lap
//   distance MODE           -> "distance D": the consensus distance
//   parameters MODE         -> "parameters N"
// Returns the exit code when the orders end.
int run_gpu_worker(const GpuWorkerOptions& options);

}  // namespace kith::bench
