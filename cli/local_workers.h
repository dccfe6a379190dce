#pragma once

#include <optional>
#include <string>
#include <vector>

namespace kith::cli {

// A worker's place among the processes that run_local_workers started on this machine.
struct LocalPlace {
  int worker = 0;
  int workers = 1;
  std::string store;  // folder of the FileStore they share
};

// From KITH_WORKER, KITH_WORKERS and KITH_STORE; nothing when none is set. InputError when they contradict
// each other.
std::optional<LocalPlace> local_place();

// Runs this very program `workers` times with the given arguments (without the program's name), each told its
// place, and waits for all. The first one that fails is named with its reason; the others get a moment to
// notice and are then ended. Workers end with this process. Returns 0, or the first failure's exit code (128
// + signal for a signal).
int run_local_workers(int workers, const std::vector<std::string>& arguments);

}  // namespace kith::cli
