#pragma once

#include <string>

namespace kith::bench {

struct WorkerOptions {
  int worker = 0;
  int workers = 1;
  std::string backend;
  std::string store;  // a folder, or HOST:PORT
  std::string topology;
  int parameters = 0;
};

// One of many: joins, opens a tiny model's windows, takes the first model, and tells what that took; then
// takes the steps it is ordered to, and tells again. Returns the exit code.
int run_worker(const WorkerOptions& options);

}  // namespace kith::bench
