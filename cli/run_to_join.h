#pragma once

#include <chrono>

#include "cli/prepare_together.h"
#include "kith/launch/world.h"
#include "kith/train/config/read.h"
#include "kith/train/run/run_folder.h"

namespace kith::cli {

inline constexpr auto kLookForRun = std::chrono::seconds(30);  // in the store that a newcomer was given

// A run that a newcomer is about to join, as it sees it.
struct JoinedRun {
  train::RunFolder folder;
  train::Job job;
  int part = 0;  // that the folder is (Note [Parts of a run] in kith/train/run/parts.h)
};

// By worker 0, for newcomers, once the run has its folder: the job as config.toml has it.
void tell_config(comm::Store& store, const train::Job& job);

// The run whose workers meet in the world's store. Its job is that of the run, with this process's own places
// and threads where `own` says some. Its folder is the newcomer's own --out where that is a part of the run,
// or worker 0's where this machine sees it; else the newcomer makes a part here. InputError when there is no
// run, or when it finds something else in its folder.
JoinedRun find_run(const RunPlace& place, const train::ReadJob& own, const launch::World& world);

}  // namespace kith::cli
