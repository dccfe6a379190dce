#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

#include "kith/engine/world_parts.h"
#include "kith/train/config/job.h"
#include "kith/train/run/run_folder.h"
#include "kith/train/run/summary.h"

namespace kith::train {

class Dataset;  // kith/train/data/dataset.h

struct TrainerOptions {
  Job job;
  RunFolder folder;
  std::filesystem::path resume_from;  // a checkpoint; empty: a fresh start
  bool terminal = false;              // worker 0 draws a bar instead of printing lines
  int part = 0;                       // of the run, that the folder is (Note [Parts of a run] in parts.h)
  bool can_leave = true;              // false: the others cannot go on without this process
};

// Steps that the job takes on this data; the largest number there is when a time decides. InputError when the
// job does not fit the data: no full batch, no room for the warm-up.
std::int64_t total_steps(const Job& job, const Dataset& dataset);

// One worker's whole run: trains, evaluates the averaged model, writes metrics and checkpoints; worker 0 also
// shows progress and writes the exported model and the summary, which it returns like every other worker.
// When `asked` becomes another ending than finished all workers save at one step and return, with that
// ending; whoever notices it first asks the others. Ending::left is for this worker alone: it leaves, the
// others go on, and what is returned tells of its own steps; where they could not go on, all save and return
// as for `terminated`. When a worker is gone the others go on, down to
// world.least of them, unless the job says otherwise (world.on_lost); then, and where nodes are models,
// Error.
Summary train(const TrainerOptions& options, const Dataset& dataset, const engine::WorldParts& world,
              const std::atomic<Ending>& asked);

}  // namespace kith::train
