#pragma once

#include <string>
#include <vector>

#include "cli/supervisor.h"
#include "kith/base/temp_folder.h"
#include "kith/launch/environment.h"

namespace kith::cli {

// What tells a process that it is `worker` of `workers`, all on this machine, meeting in `folder`.
launch::Environment local_environment(int worker, int workers, const std::string& folder);

// Runs this very program `workers` times with the given arguments (without the program's name), each told its
// place, and waits for all. The first one that fails is named with its reason; the others get a moment to
// notice and are then ended. Workers end with this process. Returns 0, or the first failure's exit code (128
// + signal for a signal).
int run_local_workers(int workers, const std::vector<std::string>& arguments, SupervisorOptions options = {});

}  // namespace kith::cli
