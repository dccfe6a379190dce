#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "cli/prepare_together.h"
#include "kith/launch/assignment.h"
#include "kith/train/config/read.h"
#include "kith/train/run/run_folder.h"

namespace kith::cli {

// A run that is about to begin: its folder, and the checkpoint that it goes on from (empty: none).
struct PreparedRun {
  train::RunFolder folder;
  std::filesystem::path checkpoint;
};

// The process as one worker of a world that a launcher started.
struct AssignedTraining {
  launch::Assignment assignment;
  train::ReadJob read;
  // It leaves when it gets SIGTERM, and the others go on.
  bool leaves = false;
  // Takes the backend from the job; false: whatever fits the world.
  bool backend_from_job = false;
  RunPlace place;
  // Of a run that goes on: its config.toml, for workers on machines that have nothing of it.
  std::string config = {};
  // On such a machine: makes the job of what another worker has told. `read` is then empty.
  std::function<train::ReadJob(const std::string& config)> read_told = {};
};

// The whole run of this worker: joins the world, agrees on the job, trains. Returns the exit code; the first
// worker that is left says where the run is. InputError on every worker when their jobs differ or the place
// is refused. A newcomer takes the job of the run that it joins, but for its own places of data and its
// threads; 0 when it came too late.
int train_assigned(const AssignedTraining& training);

// The same for a worker whose run was prepared by the process that started it.
int train_prepared(const launch::Assignment& assignment, const PreparedRun& run, bool leaves);

// What the job leaves for saving after a SIGTERM.
std::chrono::milliseconds sigterm_limit(const train::Job& job);

// For worker 0 or the process that started the workers: where the run is, or how to go on with it. `where`
// follows the folder: " on a7".
void report_ending(const train::RunFolder& folder, int code, const std::string& where = {});

}  // namespace kith::cli
