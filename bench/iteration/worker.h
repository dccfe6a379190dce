#pragma once

#include <cstdint>
#include <string>

namespace kith::bench {

struct WorkerOptions {
  int rank = 0;
  int workers = 1;
  std::int64_t batch = 1;
  std::string folder;  // where the workers meet
};

// One worker process of kith: holds a model per mode (none, exp, aer, allreduce) and takes turns with the
// others.
//   run MODE STEPS  -> "done SECONDS LOSS WAITED"     memory  -> "memory BYTES_PER_PARAMETER"
// Returns the exit code when the orders end.
int run_worker(const WorkerOptions& options);

}  // namespace kith::bench
