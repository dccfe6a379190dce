#include "cli/train_worker.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <optional>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "cli/data_folders.h"
#include "cli/interrupt_watch.h"
#include "cli/placement.h"
#include "cli/run.h"
#include "cli/run_to_join.h"
#include "cli/watched_run.h"
#include "kith/base/clock.h"
#include "kith/base/error.h"
#include "kith/base/host_name.h"
#include "kith/base/log.h"
#include "kith/base/text.h"
#include "kith/launch/admissions.h"
#include "kith/launch/join.h"
#include "kith/train/checkpoint_folder.h"
#include "kith/train/config/schema.h"
#include "kith/train/run/gather_parts.h"
#include "kith/train/run/local.h"

namespace kith::cli {
namespace {

constexpr auto kPatience = std::chrono::minutes(5);
constexpr std::string_view kConfigKey = "train/config";
constexpr std::string_view kWithoutKey = "train/without-config";

// What may differ from machine to machine: places, and how many threads compute.
constexpr std::array<std::string_view, 7> kMayDiffer{
    "data.path",     "data.threads",          "model.weights", "topology.file",
    "output.folder", "world.compute_threads", "world.backend"};

std::vector<launch::Fact> facts_of(train::Job job) {
  std::vector<launch::Fact> facts;
  for (const train::Key& key : train::schema()) {
    if (std::ranges::find(kMayDiffer, key.name) == kMayDiffer.end())
      facts.push_back({std::string(key.name), train::toml_text(key.field(job))});
  }
  return facts;
}

// How a worker of the job enters its world, and what all must agree on.
launch::JoinOptions joining_of(const AssignedTraining& training, train::Job& job) {
  const launch::Assignment& assignment = training.assignment;
  if (!training.backend_from_job) job.world.backend = "automatic";
  train::check_machine(job, assignment.local_workers.value_or(1));
  launch::JoinOptions joining = train::joining(job, assignment);
  joining.facts = facts_of(job);
  joining.facts.push_back({"steps on the data", std::to_string(train::check_data(job, data_folders()))});
  return joining;
}

// On a machine that has nothing of the run that goes on: its config.toml, from a worker that has it.
std::string told_config(const launch::Assignment& assignment, comm::Store& store, Log& log) {
  log.info("this machine has nothing of the run: waits for its configuration from another worker");
  // The last one to find that nobody has it tells the others.
  if (store.add(kWithoutKey, 1) >= assignment.workers) store.set_once(kConfigKey, "");
  const auto told = store.wait(kConfigKey, SteadyClock().now() + kPatience);
  if (told && !told->empty()) return *told;
  throw InputError("no worker has a part of the run", cat("worker ", assignment.worker),
                   "--resume names a folder that kith train wrote, on at least one of the machines");
}

// As worker 0 tells it to those who come later.
std::string told_of(const train::RunFolder& folder) {
  return cat(kRunReady, folder.path().string(), "\n");
}

struct Leaving {
  const launch::Assignment& assignment;
  bool leaves = false;
};

train::Ending train_joined(const launch::World& world, train::TrainerOptions options, InterruptWatch& watch,
                           const Leaving& leaving) {
  const launch::Assignment& assignment = leaving.assignment;
  // Where a worker holds the store, the others cannot go on without it.
  options.can_leave = assignment.worker != 0 || !assignment.store || !assignment.store->by_worker();
  watch.begin({.limit = sigterm_limit(options.job),
               .leaves = leaving.leaves,
               .starter = assignment.launcher == "kith" ? ::getppid() : 0});
  const train::Ending ending = train::train_in_process(options, data_folders(), world, watch.asked()).ending;
  if (ending == train::Ending::left && !assignment.left_file.empty())
    std::ofstream(assignment.left_file) << "";
  return ending;
}

// Once every worker's trace is complete.
void merge_traces_together(const launch::World& world, const train::TrainerOptions& options) {
  const auto key = [](int worker) { return cat("train/traced/", worker); };
  world.store().set(key(world.self().value), "yes");
  const Deadline deadline = SteadyClock().now() + kPatience;
  for (const WorkerId worker : world.members().workers) {
    if (worker != world.self() && world.transport().lost(worker)) continue;
    if (worker < world.self()) return;  // it does the rest
    if (!world.store().wait(key(worker.value), deadline))
      throw Error("has not finished its trace", cat(worker));
  }
  train::merge_run_traces(options.job, options.folder);
}

// In the run folder, for kith scale: where the workers meet, and where the secret lies that this needs, not
// the secret itself. Whoever cannot write it trains all the same.
void write_store(const train::RunFolder& folder, const launch::Assignment& assignment) {
  std::ofstream(folder.path() / "store") << assignment.store->text() << "\n"
                                         << assignment.secret_file << "\n";
}

// Of a run in parts, on every worker that is left: true where it was one, which has then been told of.
bool gather(const launch::World& world, const train::RunFolder& folder, const train::Job& job, int code) {
  const train::Parts parts = train::known_parts(world.store());
  if (parts.size() < 2) return false;
  if (!train::gather_parts(world, folder, parts)) return true;
  if (job.output.trace) train::merge_run_traces(job, folder);
  report_ending(folder, code, cat(" on ", host_name()));
  return true;
}

bool on_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}

// One more worker of a job that runs: what it trains is that job's.
int train_newcomer(const AssignedTraining& training) {
  const launch::Assignment& assignment = training.assignment;
  const bool numbered = assignment.workers > 0;
  const std::string name = numbered ? cat("worker ", assignment.worker) : "newcomer";
  InterruptWatch watch(name);
  StderrLog log(name);
  launch::JoinOptions joining;
  joining.log = &log;
  joining.patience = kLookForRun;
  const launch::World world = launch::join(assignment, joining);
  const JoinedRun run = find_run(training.place, training.read, world);
  if (!numbered) std::cout << world.self() << " joins the run in " << run.folder.path().string() << std::endl;
  train::check_machine(run.job, assignment.local_workers.value_or(1));
  const train::TrainerOptions options{run.job, run.folder, {}, on_terminal(), run.part};
  try {
    const train::Ending ending = train_joined(world, options, watch, {assignment, training.leaves});
    if (ending != train::Ending::left) gather(world, run.folder, run.job, code_of(ending));
    return code_of(ending);
  } catch (const launch::TooLate& late) {
    log.warning(late.what());
    return 0;
  }
}

}  // namespace

std::chrono::milliseconds sigterm_limit(const train::Job& job) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * job.checkpoint.sigterm_seconds));
}

void report_ending(const train::RunFolder& folder, int code, const std::string& where) {
  if (code == 0) std::cout << "run folder: " << folder.path().string() << where << "\n";
  if (!stopped(code)) return;
  if (train::list_checkpoints(folder.checkpoints()).empty()) {
    std::cout << "stopped before the first checkpoint: there is nothing to go on from in "
              << folder.path().string() << where << "\n";
  } else {
    std::cout << "stopped; go on with: kith train --resume " << folder.path().string() << "\n";
  }
}

int train_assigned(const AssignedTraining& training) {
  const launch::Assignment& assignment = training.assignment;
  if (assignment.newcomer) return train_newcomer(training);
  train::Job job = training.read.job;
  InterruptWatch watch(cat("worker ", assignment.worker));
  StderrLog log(cat("worker ", assignment.worker));
  launch::JoinOptions joining;
  if (!training.read_told) joining = joining_of(training, job);
  joining.log = &log;
  joining.complete = [&](comm::Store& store, launch::JoinOptions& options) {
    if (!training.config.empty()) store.set_once(kConfigKey, training.config);
    if (!training.read_told) return;
    job = training.read_told(told_config(assignment, store, log)).job;
    options = joining_of(training, job);
    options.log = &log;
  };
  const launch::World world = launch::join(assignment, joining);
  job.world.backend = world.transport().backend();
  if (job.world.nodes.empty()) job.world.nodes = nodes_of(world.transport());

  const AgreedRun run = prepare_together(training.place, job, world);
  if (assignment.worker == 0) {
    if (assignment.store) write_store(run.folder, assignment);
    train::tell_parts(world.store(), run.parts);
    tell_config(world.store(), job);
  }
  const train::TrainerOptions options{job, run.folder, run.checkpoint, on_terminal(),
                                      train::part_of(run.parts, assignment.worker).number};
  const train::Ending ending = train_joined(world, options, watch, {assignment, training.leaves});
  const int code = code_of(ending);
  if (ending == train::Ending::left) return code;
  if (gather(world, run.folder, job, code)) return code;
  if (job.output.trace) merge_traces_together(world, options);
  if (assignment.worker == 0) report_ending(run.folder, code);
  return code;
}

int train_prepared(const launch::Assignment& assignment, const PreparedRun& run, bool leaves) {
  InterruptWatch watch;
  const train::Job job = train::read_job({.file = run.folder.config().string(), .settings = {}}).job;
  StderrLog log(cat("worker ", assignment.worker), LogLevel::warning);
  launch::JoinOptions joining = train::joining(job, assignment);
  joining.facts = facts_of(job);
  joining.log = &log;
  const launch::World world = launch::join(assignment, joining);
  if (assignment.worker == 0) world.store().set(std::string(kRunKey), told_of(run.folder));
  return code_of(
      train_joined(world, {job, run.folder, run.checkpoint, on_terminal()}, watch, {assignment, leaves}));
}

}  // namespace kith::cli
