#pragma once

#include <string>
#include <vector>

#include "bench/common/problem.h"

namespace kith::bench {

struct WorkerOptions {
  int rank = 0;
  int hosts = 1;
  int workers_per_host = 1;
  std::string folder;     // where the workers meet
  std::string transport;  // a backend of kith/comm/registry.h
  std::string trace;      // a folder for Chrome traces; "-": none
  Problem problem;

  // As words of a command line.
  std::vector<std::string> words() const;
  // REQUIRES: what words() gave, at `first`.
  static WorkerOptions from(const char* const* first);
  static constexpr int kWords = 10;
};

// One worker process of kith: holds a model per mode and takes turns with the others.
//   run MODE UNTIMED TIMED  -> a Lap, and after it the bytes that this worker's transport has read from other
//                              hosts in all these steps
// Returns the exit code when the orders end.
int run_worker(const WorkerOptions& options);

}  // namespace kith::bench
