#pragma once

#include <string>
#include <vector>

#include "cli/supervisor.h"
#include "kith/base/temp_folder.h"
#include "kith/launch/environment.h"

namespace kith::cli {

// The file that a worker makes when it leaves a run of kith train whose others go on (launch::kLeftFile), in
// a folder of its launcher; and whether it has.
std::string left_file_in(const std::string& folder, int worker);
bool has_left(const std::string& left_file);

// What tells a process that it is `worker` of `workers`, all on this machine, meeting at `store`.
launch::Environment local_environment(int worker, int workers, const std::string& store);

// Runs this very program `workers` times with the given arguments (without the program's name), each told its
// place, and waits for all. They meet at `store`, or, where that is empty, in a folder of their own. The
// first one that fails is named with its reason; the others get a moment to notice and are then ended, or go
// on without it (SupervisorOptions::deaths), and then every one that dies is named. Workers end with this
// process. Returns 0, or the first failure's exit code (128 + signal for a signal).
int run_local_workers(int workers, const std::vector<std::string>& arguments, SupervisorOptions options = {},
                      const std::string& store = {});

}  // namespace kith::cli
