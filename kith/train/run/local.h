#pragma once

#include <atomic>

#include "kith/launch/join.h"
#include "kith/train/data/folders.h"
#include "kith/train/run/trainer.h"

namespace kith::train {

// Steps that the job will take. InputError when its data is missing, bad, or too little: before anybody is
// started.
std::int64_t check_data(const Job& job, const DataFolders& data);

// InputError when this machine cannot hold `workers` workers of the job: it has no GPU where one is asked
// for, or not the memory that their models take. Also before anybody is started.
void check_machine(const Job& job, int workers);

// How the job's worker of this assignment enters its world: the backend that the job names, or whatever fits,
// and the GPU that the worker will take.
// InputError when there is none to take.
launch::JoinOptions joining(const Job& job, const launch::Assignment& assignment);

// The run of one worker, which is this process, in the world that it has joined.
Summary train_in_process(const TrainerOptions& options, const DataFolders& data, const launch::World& world,
                         const std::atomic<Ending>& asked);

// All workers as threads of this process. When one fails the others end, and the first failure is thrown.
Summary train_in_threads(const TrainerOptions& options, const DataFolders& data,
                         const std::atomic<Ending>& asked);

// Joins the workers' traces that lie in the folder into the run's.
void merge_run_traces(const Job& job, const RunFolder& folder);

}  // namespace kith::train
