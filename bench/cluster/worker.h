#pragma once

#include <string>
#include <vector>

#include "bench/common/problem.h"

namespace kith::bench {

struct WorkerOptions {
  std::string transport;  // a backend of kith/comm/registry.h
  std::string trace;      // a folder for Chrome traces; "-": none
  int hosts = 1;
  Problem problem;

  // As words of a command line.
  std::vector<std::string> words() const;
  // REQUIRES: what words() gave, at `first`.
  static WorkerOptions from(const char* const* first);
  static constexpr int kWords = 7;
};

// One worker process of kith, placed by torchrun's variables: holds a model per mode and takes turns with the
// others.
//   run MODE UNTIMED TIMED  -> a Lap, and after it the bytes that this worker has sent to other hosts in all
//                              these steps, by its transport's ledger
// Returns the exit code when the orders end.
int run_worker(const WorkerOptions& options);

}  // namespace kith::bench
