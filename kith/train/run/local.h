#pragma once

#include <atomic>
#include <filesystem>

#include "kith/train/data/folders.h"
#include "kith/train/run/trainer.h"

namespace kith::train {

// Steps that the job will take. InputError when its data is missing, bad, or too little: before anybody is
// started.
std::int64_t check_data(const Job& job, const DataFolders& data);

// A worker's run in this process, one of several processes that share the store's folder.
Summary train_in_process(const TrainerOptions& options, const DataFolders& data, int worker,
                         const std::filesystem::path& store, const std::atomic<bool>& interrupted);

// All workers as threads of this process. When one fails the others end, and the first failure is thrown.
Summary train_in_threads(const TrainerOptions& options, const DataFolders& data,
                         const std::atomic<bool>& interrupted);

// Joins the workers' traces into the run's.
void merge_run_traces(const Job& job, const RunFolder& folder);

}  // namespace kith::train
