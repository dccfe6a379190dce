#include "cli/train_worker.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <optional>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "cli/data_folders.h"
#include "cli/interrupt_watch.h"
#include "cli/placement.h"
#include "cli/run.h"
#include "kith/base/clock.h"
#include "kith/base/error.h"
#include "kith/base/log.h"
#include "kith/base/text.h"
#include "kith/launch/join.h"
#include "kith/train/checkpoint_folder.h"
#include "kith/train/config/schema.h"
#include "kith/train/run/local.h"

namespace kith::cli {
namespace {

constexpr auto kPatience = std::chrono::minutes(5);
constexpr std::string_view kRunKey = "train/run";
constexpr char kReady = '=';
constexpr char kRefused = '!';
constexpr char kBroken = '?';

// What may differ from machine to machine: places, and how many threads compute.
constexpr std::array<std::string_view, 5> kMayDiffer{"data.path", "topology.file", "output.folder",
                                                     "world.compute_threads", "world.backend"};

std::vector<launch::Fact> facts_of(train::Job job) {
  std::vector<launch::Fact> facts;
  for (const train::Key& key : train::schema()) {
    if (std::ranges::find(kMayDiffer, key.name) == kMayDiffer.end())
      facts.push_back({std::string(key.name), train::toml_text(key.field(job))});
  }
  return facts;
}

// Worker 0 prepares the run and tells the others; everybody returns the same, or fails alike.
PreparedRun prepare_together(const AssignedTraining& training, const train::Job& job, comm::Store& store) {
  const std::string key(kRunKey);
  if (training.assignment.worker == 0) {
    try {
      PreparedRun run = training.prepare(job);
      store.set(key, cat(kReady, run.folder.path().string(), "\n", run.checkpoint.string()));
      return run;
    } catch (const InputError& error) {
      store.set(key, cat(kRefused, error.what()));
      throw;
    } catch (const std::exception& error) {
      store.set(key, cat(kBroken, error.what()));
      throw;
    }
  }
  const auto told = store.wait(key, SteadyClock().now() + kPatience);
  if (!told)
    throw Error("worker 0 has not prepared the run folder", cat("worker ", training.assignment.worker));
  const std::string text = told->substr(1);
  if (told->front() == kRefused) throw InputError(text, "worker 0");
  if (told->front() == kBroken) throw Error(text, "worker 0");
  const auto newline = text.find('\n');
  const std::filesystem::path folder = text.substr(0, newline);
  if (!std::filesystem::exists(folder)) {
    throw InputError("this machine does not see the run folder that worker 0 made", folder.string(),
                     "put output.folder (or --out) on a file system that all machines share");
  }
  return {train::RunFolder::open(folder), text.substr(newline + 1)};
}

int train_joined(const launch::World& world, const train::TrainerOptions& options, InterruptWatch& watch) {
  watch.begin(sigterm_limit(options.job));
  return code_of(train::train_in_process(options, data_folders(), world, watch.asked()).ending);
}

// Once every worker's trace is complete.
void merge_traces_together(const launch::World& world, const train::TrainerOptions& options) {
  const auto key = [](int worker) { return cat("train/traced/", worker); };
  world.store().set(key(world.self().value), "yes");
  if (world.self().value != 0) return;
  const Deadline deadline = SteadyClock().now() + kPatience;
  for (const WorkerId worker : world.members().workers) {
    if (!world.store().wait(key(worker.value), deadline))
      throw Error("has not finished its trace", cat(worker));
  }
  train::merge_run_traces(options.job, options.folder);
}

bool on_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}

}  // namespace

std::chrono::milliseconds sigterm_limit(const train::Job& job) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * job.checkpoint.sigterm_seconds));
}

void report_ending(const train::RunFolder& folder, int code) {
  if (code == 0) std::cout << "run folder: " << folder.path().string() << "\n";
  if (!stopped(code)) return;
  if (train::list_checkpoints(folder.checkpoints()).empty()) {
    std::cout << "stopped before the first checkpoint: there is nothing to go on from in "
              << folder.path().string() << "\n";
  } else {
    std::cout << "stopped; go on with: kith train --resume " << folder.path().string() << "\n";
  }
}

int train_assigned(const AssignedTraining& training) {
  const launch::Assignment& assignment = training.assignment;
  train::Job job = training.read.job;
  InterruptWatch watch(cat("worker ", assignment.worker));
  StderrLog log(cat("worker ", assignment.worker));
  if (!training.backend_from_job) job.world.backend = "automatic";
  train::check_machine(job, assignment.local_workers.value_or(1));
  launch::JoinOptions joining = train::joining(job, assignment);
  joining.facts = facts_of(job);
  joining.log = &log;
  joining.facts.push_back({"steps on the data", std::to_string(train::check_data(job, data_folders()))});
  const launch::World world = launch::join(assignment, joining);
  job.world.backend = world.transport().backend();
  if (job.world.nodes.empty()) job.world.nodes = nodes_of(world.transport());

  const PreparedRun run = prepare_together(training, job, world.store());
  const train::TrainerOptions options{job, run.folder, run.checkpoint, on_terminal()};
  const int code = train_joined(world, options, watch);
  if (job.output.trace) merge_traces_together(world, options);
  if (assignment.worker == 0) report_ending(run.folder, code);
  return code;
}

int train_prepared(const launch::Assignment& assignment, const PreparedRun& run) {
  InterruptWatch watch;
  const train::Job job = train::read_job({.file = run.folder.config().string(), .settings = {}}).job;
  StderrLog log(cat("worker ", assignment.worker), LogLevel::warning);
  launch::JoinOptions joining = train::joining(job, assignment);
  joining.facts = facts_of(job);
  joining.log = &log;
  const launch::World world = launch::join(assignment, joining);
  return train_joined(world, {job, run.folder, run.checkpoint, on_terminal()}, watch);
}

}  // namespace kith::cli
