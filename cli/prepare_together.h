#pragma once

#include <filesystem>
#include <functional>

#include "kith/launch/world.h"
#include "kith/train/checkpoint_folder.h"
#include "kith/train/run/parts.h"
#include "kith/train/run/run_folder.h"

namespace kith::cli {

// Where a worker of a launcher's world wants its run.
struct RunPlace {
  std::filesystem::path path;  // --out or --resume of this worker; empty: a name that worker 0 draws
  // Of a run that goes on; empty for a new one. Called on worker 0 with the newest checkpoint. InputError
  // when the job cannot go on from it.
  std::function<void(const train::Job& job, const train::RunFolder& folder, const train::Manifest& newest)>
      check_resumed = {};
};

// A run that is about to begin, as one worker sees it.
struct AgreedRun {
  train::RunFolder folder;           // of this worker's part
  std::filesystem::path checkpoint;  // there; empty: none
  train::Parts parts;
};

// Collective, once the workers have agreed on the job. Worker 0 makes the run folder, or opens the one that
// goes on. Workers who see it use it. Others make a part of the run on their machine: in their own --out, or
// in their own output.folder under the same name. A run that goes on is found in its parts, and every part
// gets what its workers need of the newest checkpoint. InputError on every worker when a folder holds
// something else, when somebody works in it, or when there is nothing to go on from.
AgreedRun prepare_together(const RunPlace& place, const train::Job& job, const launch::World& world);

}  // namespace kith::cli
