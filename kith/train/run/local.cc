#include "kith/train/run/local.h"

#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include <torch/utils.h>

#include "kith/base/clock.h"
#include "kith/base/log.h"
#include "kith/base/text.h"
#include "kith/launch/threads.h"
#include "kith/telemetry/file_sink.h"
#include "kith/train/config/footprint.h"
#include "kith/train/data/dataset.h"
#include "kith/train/run/model_pass.h"
#include "kith/train/torch_error.h"

namespace kith::train {
namespace {

Summary train_worker(const TrainerOptions& options, const Dataset& dataset, const launch::World& joined,
                     const std::atomic<Ending>& asked) {
  engine::WorldParts world = engine::seen_by_engine(joined);
  const int worker = world.self().value;
  StderrLog log(cat("worker ", worker), LogLevel::warning);
  world.log = &log;
  std::unique_ptr<telemetry::Sink> trace;
  if (options.job.output.trace) {
    std::filesystem::create_directories(options.folder.trace(worker).parent_path());
    trace = telemetry::make_chrome_trace_sink({.path = options.folder.trace(worker).string(), .log = &log});
    world.trace = trace.get();
  }
  return with_short_errors([&] { return train(options, dataset, world, asked); });
}

}  // namespace

std::int64_t check_data(const Job& job, const DataFolders& data) {
  return total_steps(job, *open_dataset(job, data));
}

void check_machine(const Job& job, int workers) {
  if (job.world.device == "cuda") {
    gpus_here();
  } else {
    check_fits(job, workers, memory_here());
  }
}

launch::JoinOptions joining(const Job& job, const launch::Assignment& assignment) {
  launch::JoinOptions options;
  if (job.world.backend != "automatic") options.backend = job.world.backend;
  if (job.world.device == "cuda") options.gpu = assignment.local_rank.value_or(0) % gpus_here();
  return options;
}

Summary train_in_process(const TrainerOptions& options, const DataFolders& data, const launch::World& world,
                         const std::atomic<Ending>& asked) {
  const auto dataset = open_dataset(options.job, data);
  return train_worker(options, *dataset, world, asked);
}

Summary train_in_threads(const TrainerOptions& options, const DataFolders& data,
                         const std::atomic<Ending>& asked) {
  const auto dataset = open_dataset(options.job, data);
  // Before the workers are: torch takes the number over into threads that begin later.
  torch::set_num_threads(static_cast<int>(options.job.world.compute_threads));
  Summary summary;
  std::mutex mutex;  // guards first_failure
  std::exception_ptr first_failure;
  launch::run_threads(static_cast<int>(options.job.world.workers), [&](const launch::World& world) {
    try {
      const Summary own = train_worker(options, *dataset, world, asked);
      if (world.rank() == 0) summary = own;
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first_failure) first_failure = std::current_exception();
    }
  });
  if (first_failure) std::rethrow_exception(first_failure);
  return summary;
}

void merge_run_traces(const Job& job, const RunFolder& folder) {
  std::vector<std::string> traces;
  std::error_code ignored;
  for (int worker = 0; worker < job.world.workers; ++worker) {
    const std::filesystem::path trace = folder.trace(worker);
    if (std::filesystem::exists(trace, ignored)) traces.push_back(trace.string());
  }
  telemetry::merge_traces(traces, folder.trace().string());
}

}  // namespace kith::train
