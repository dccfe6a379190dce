#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

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
  // Takes the backend from the job; false: whatever fits the world.
  bool backend_from_job = false;
  // Makes the folder of the job, or opens it. Called on worker 0 alone, once all workers have agreed; the
  // others hear what came of it.
  std::function<PreparedRun(const train::Job& job)> prepare;
};

// The whole run of this worker: joins the world, agrees on the job, trains. Returns the exit code; worker 0
// says where the run is. InputError on every worker when their jobs differ or prepare refuses.
int train_assigned(const AssignedTraining& training);

// The same for a worker whose run was prepared by the process that started it.
int train_prepared(const launch::Assignment& assignment, const PreparedRun& run);

// What the job leaves for saving after a SIGTERM.
std::chrono::milliseconds sigterm_limit(const train::Job& job);

// For worker 0 or the process that started the workers: where the run is, or how to go on with it.
void report_ending(const train::RunFolder& folder, int code);

}  // namespace kith::cli
