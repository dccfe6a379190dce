#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "cli/assignment_flags.h"
#include "cli/commands.h"
#include "cli/data_folders.h"
#include "cli/interrupt_watch.h"
#include "cli/local_workers.h"
#include "cli/room.h"
#include "cli/run.h"
#include "cli/train_worker.h"
#include "cli/training.h"
#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/launch/assignment.h"
#include "kith/train/checkpoint_folder.h"
#include "kith/train/config/read.h"
#include "kith/train/config/schema.h"
#include "kith/train/run/local.h"

namespace kith::cli {
namespace {

constexpr auto kAskAfter = std::chrono::milliseconds(500);  // a failure, for the others to see it themselves
constexpr auto kLeaving = std::chrono::seconds(2);          // for workers who have used their time up

struct TrainFlags {
  std::string config;
  std::vector<std::string> sets;
  std::optional<int> workers;
  bool threads = false;
  std::string out;
  std::string resume;
  bool print_config = false;
  bool trace = false;
  bool demo = false;
  bool leave = false;
  std::string join;
  launch::AssignmentFlags assignment;
  // What a worker process is told by the one that started it.
  std::string run;
  std::string checkpoint;
};

std::vector<train::Setting> settings_of(const TrainFlags& flags) {
  std::vector<train::Setting> settings;
  for (const std::string& set : flags.sets)
    settings.push_back({set, "--set"});
  if (flags.workers) settings.push_back({cat("world.workers=", *flags.workers), "--workers"});
  if (flags.threads) settings.push_back({"world.backend=inproc", "--threads"});
  if (flags.trace) settings.push_back({"output.trace=true", "--trace"});
  return settings;
}

void end_with(int code) {
  if (code != 0) throw ExitCode{code};
}

// The workers of a job save when they get SIGTERM, or end at once where they have nothing to save yet.
SupervisorOptions supervision(const train::Job& job) {
  const auto limit = sigterm_limit(job);
  SupervisorOptions options{.ask_after = kAskAfter, .sigterm_limit = limit + kLeaving};
  if (job.world.on_lost == "reform" || (job.world.on_lost == "carry_on" && job.algorithm.inside == "none"))
    options.deaths = {.then = OnDeath::go_on, .least = static_cast<int>(job.world.least)};
  options.on_signal = [limit](int signal) {
    if (signal == SIGTERM) std::cerr << "kith train: " << sigterm_text(limit) << std::endl;
  };
  return options;
}

// Where the workers meet that this process starts: in a folder, unless --store says otherwise.
std::string store_of(const std::string& asked) {
  if (asked.empty()) return {};
  const launch::MeetingPoint point = launch::with_run(launch::parse_meeting_point(asked, "--store"));
  if (point.by_worker()) {
    throw InputError(cat("'", asked, "' is for workers of several machines"), "--store",
                     "leave it out: workers of one machine meet in a folder; or etcd://HOST:PORT,...");
  }
  return point.text();
}

// Runs the job's workers, which this process starts, and returns the exit code.
int run_workers(const train::Job& job, const PreparedRun& run, const std::string& store, bool leave) {
  const auto& [folder, checkpoint] = run;
  int code = 0;
  if (job.world.backend == "inproc") {
    InterruptWatch watch("kith train");
    watch.begin({.limit = sigterm_limit(job)});
    const train::TrainerOptions options{job, folder, checkpoint, ::isatty(STDOUT_FILENO) == 1,
                                        /*can_leave=*/false};
    code = code_of(train::train_in_threads(options, data_folders(), watch.asked()).ending);
  } else {
    std::vector<std::string> arguments{"train", "--in-run", folder.path().string()};
    if (!checkpoint.empty()) arguments.insert(arguments.end(), {"--from-checkpoint", checkpoint.string()});
    if (leave) arguments.emplace_back("--leave");
    code = run_local_workers(static_cast<int>(job.world.workers), arguments, supervision(job), store);
  }
  if (job.output.trace && (code == 0 || stopped(code))) train::merge_run_traces(job, folder);
  return code;
}

void require_room_for(const train::ReadJob& read) {
  if (read.job.world.backend == "inproc") return;
  require_room(static_cast<int>(read.job.world.workers), kTrainingWorker, room_here(),
               train::place_of(read.origins, "world.workers"));
}

// All that can be known before there is a folder or a worker.
void check_before_start(const train::ReadJob& read) {
  require_room_for(read);
  train::check_machine(read.job, static_cast<int>(read.job.world.workers));
  train::check_data(read.job, data_folders());
}

void run_as_worker(const TrainFlags& flags) {
  const launch::Assignment assignment = launch::discover(launch::read_environment());
  if (!assignment.assigned())
    throw InputError("this process is not a worker", "--in-run", "kith gives it to its own workers alone");
  end_with(train_prepared(assignment, {train::RunFolder::open(flags.run), flags.checkpoint}, flags.leave));
}

// The job of a world that a launcher started has as many workers as it started.
std::vector<train::Setting> defaults_of(const launch::Assignment& assignment) {
  if (!assignment.assigned()) return {};
  return {{cat("world.workers=", assignment.workers), assignment.launcher}};
}

// True when this process is a worker of such a world, false when it starts workers of its own. InputError
// when the job asks for another world.
bool is_worker(const launch::Assignment& assignment, const train::ReadJob& read) {
  const std::int64_t wanted = read.job.world.workers;
  if (!assignment.assigned() || (assignment.workers == 1 && wanted > 1)) return false;
  if (wanted != assignment.workers) {
    throw InputError(
        cat(wanted, " workers are asked for, and ", assignment.launcher, " started ", assignment.workers),
        train::place_of(read.origins, "world.workers"),
        cat("leave it out, or make the two agree: --set world.workers=", assignment.workers));
  }
  if (read.job.world.backend == "inproc" && assignment.workers > 1) {
    throw InputError(cat("threads of one process, and ", assignment.launcher, " started ", assignment.workers,
                         " processes"),
                     train::place_of(read.origins, "world.backend"), "leave it out");
  }
  return true;
}

void run_fresh(const TrainFlags& flags, const launch::Assignment& assignment) {
  const train::ReadJob read = train::read_job(
      {.defaults = defaults_of(assignment), .file = flags.config, .settings = settings_of(flags)});
  if (flags.print_config) {
    std::cout << train::print_config(read.job);
    return;
  }
  if (is_worker(assignment, read)) {
    if (assignment.worker == 0 && read.origins.at("world.workers") == assignment.launcher)
      std::cout << "world.workers = " << assignment.workers << ", as " << assignment.launcher << " started"
                << std::endl;
    end_with(
        train_assigned({assignment, read, flags.leave, read.origins.contains("world.backend"), {flags.out}}));
    return;
  }
  check_before_start(read);
  const std::string store = store_of(flags.assignment.store);
  const PreparedRun run{train::RunFolder::create(read.job, flags.out), {}};
  const int code = run_workers(read.job, run, store, flags.leave);
  report_ending(run.folder, code);
  end_with(code);
}

// Whether nothing is missing after the last step. The summary is written when all the rest is there.
bool is_finished(const train::RunFolder& folder, std::int64_t steps) {
  if (!folder.has_model()) return false;
  try {
    const train::Summary summary = train::read_summary(folder.summary());
    return summary.ending == train::Ending::finished && summary.steps >= steps;
  } catch (const InputError&) {
    return false;  // it is missing, or a crash left half of it
  }
}

// InputError when the job cannot go on from the newest checkpoint of the run in `folder`.
void check_resumed(const train::Job& job, const train::RunFolder& folder, const train::Manifest& manifest) {
  const std::int64_t steps = train::check_data(job, data_folders());
  if (manifest.step >= steps && is_finished(folder, steps)) {
    throw InputError(cat("the run has done its ", steps, " steps"), folder.path().string(),
                     "give it more with --set train.steps=N (or train.epochs)");
  }
  if (manifest.workers() != job.world.workers && job.train.epochs > 0) {
    throw InputError(cat("epochs of ", job.world.workers, " workers have other steps than those of the ",
                         manifest.workers(), " that saved the run"),
                     "train.epochs", "--set train.epochs=0 --set train.steps=N");
  }
}

// Checks that there is something to go on with, and writes the settings that changed.
PreparedRun prepare_resumed(const train::Job& job, const std::filesystem::path& path) {
  const train::RunFolder folder = train::RunFolder::take(path);
  const std::filesystem::path newest = train::newest_checkpoint(folder.checkpoints());
  check_resumed(job, folder, train::verify_checkpoint(newest));
  folder.write_config(job);
  return {folder, newest};
}

// The nodes of a run are those of its workers: another number of workers has one node unless it says more.
std::vector<train::Setting> with_nodes(std::vector<train::Setting> settings, const std::string& config) {
  const auto sets = [&](const char* key) {
    return std::ranges::any_of(settings, [&](const train::Setting& s) { return s.text.starts_with(key); });
  };
  if (!sets("world.workers=") || sets("world.nodes=")) return settings;
  std::vector<train::Setting> alone{{"world.nodes=", "--resume"}};
  alone.insert(alone.end(), settings.begin(), settings.end());
  const std::int64_t before = train::read_job({.file = config, .settings = {}}).job.world.workers;
  const std::int64_t now = train::read_job({.file = config, .settings = alone}).job.world.workers;
  return before == now ? settings : alone;
}

train::ReadJob read_resumed(const std::string& config, const std::vector<train::Setting>& settings) {
  return train::read_job({.file = config, .settings = with_nodes(settings, config)});
}

// Whether this machine has something of the run.
bool has_part(const std::filesystem::path& run) {
  std::error_code ignored;
  return std::filesystem::exists(train::RunFolder::at(run).config(), ignored);
}

std::string text_in(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void resume(const TrainFlags& flags, const launch::Assignment& assignment) {
  if (!flags.config.empty()) {
    throw InputError(cat("'", flags.config, "' is given too"), "--resume",
                     "a run goes on with its own config.toml; change what may change with --set");
  }
  if (!flags.out.empty())
    throw InputError(cat("'", flags.out, "' is given too"), "--out", "a run goes on in its own folder");
  TrainFlags allowed = flags;
  if (flags.assignment.worker)
    allowed.workers.reset();  // it tells which worker this is, not how many the job has
  const std::vector<train::Setting> settings = settings_of(allowed);
  train::check_resumable(settings);
  const RunPlace place{std::filesystem::absolute(flags.resume), check_resumed};
  if (!has_part(flags.resume) && assignment.assigned()) {
    const auto read_told = [&](const std::string& config) {
      const TempFolder told("kith-resume");
      const std::filesystem::path file = std::filesystem::path(told.path()) / "config.toml";
      std::ofstream(file, std::ios::binary) << config;
      const train::ReadJob read = read_resumed(file.string(), settings);
      if (!is_worker(assignment, read)) train::RunFolder::open(flags.resume);
      return read;
    };
    AssignedTraining training;
    training.assignment = assignment;
    training.leaves = flags.leave;
    training.place = place;
    training.read_told = read_told;
    end_with(train_assigned(training));
    return;
  }
  const train::RunFolder folder = train::RunFolder::open(flags.resume);
  const train::ReadJob read = read_resumed(folder.config().string(), settings);
  if (is_worker(assignment, read)) {
    end_with(train_assigned({assignment, read, flags.leave, false, place, text_in(folder.config())}));
    return;
  }
  require_room_for(read);
  train::check_machine(read.job, static_cast<int>(read.job.world.workers));
  const std::string store = store_of(flags.assignment.store);
  const PreparedRun run = prepare_resumed(read.job, folder.path());
  const int code = run_workers(read.job, run, store, flags.leave);
  report_ending(folder, code);
  end_with(code);
}

// One more worker of a job that runs elsewhere, by hand. It finds its number in the store.
void join_running(const TrainFlags& flags) {
  const auto refuse = [](bool given, const char* flag) {
    if (given) throw InputError("--join is given too", flag, "a worker that joins takes the job of the run");
  };
  refuse(!flags.config.empty(), "CONFIG");
  refuse(flags.workers.has_value(), "--workers");
  refuse(flags.threads, "--threads");
  refuse(!flags.out.empty(), "--out");
  refuse(!flags.resume.empty(), "--resume");
  refuse(!flags.assignment.store.empty(), "--store");
  refuse(flags.assignment.worker.has_value(), "--worker");
  launch::Environment environment = launch::read_environment();
  std::erase_if(environment, [](const auto& variable) {
    return variable.first.starts_with("KITH_WORKER") || variable.first == "KITH_STORE";
  });
  launch::Assignment assignment = launch::discover(environment, {.interface = flags.assignment.interface});
  assignment.launcher = "flags";
  assignment.newcomer = true;
  assignment.worker = assignment.workers = 0;
  assignment.store = launch::parse_meeting_point(flags.join, "--join");
  assignment.store->served = true;  // by others: this process serves nothing
  if (assignment.store->is_folder() && !std::filesystem::is_directory(assignment.store->folder))
    throw InputError("there is no such folder", flags.join, "name the store of a running job");
  const train::ReadJob read = train::read_job({.file = {}, .settings = settings_of(flags)});
  end_with(train_assigned({assignment, read, flags.leave, false, {}}));
}

void run_train(const TrainFlags& flags) {
  if (!flags.run.empty()) return run_as_worker(flags);
  if (!flags.join.empty()) return join_running(flags);
  if (flags.demo) throw InputError("the demo is a command of its own", "--demo", "kith demo");
  launch::AssignmentFlags assignment_flags = flags.assignment;
  assignment_flags.workers = flags.workers;
  const launch::Assignment assignment = flags.print_config
                                            ? launch::Assignment()
                                            : launch::discover(launch::read_environment(), assignment_flags);
  if (!flags.resume.empty()) return resume(flags, assignment);
  run_fresh(flags, assignment);
}

}  // namespace

void add_train(CLI::App& app) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app.add_subcommand("train", kTrainSummary);
  command->add_option("config", flags->config, "TOML file (default: a small GPT on the shipped text)");
  command
      ->add_option("--set", flags->sets, "KEY=VALUE over the file, such as optimizer.beta1=0.95; repeatable")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->add_option("--workers", flags->workers, "how many workers (world.workers)");
  command->add_flag("--threads", flags->threads, "workers are threads of this process");
  command->add_option("--out", flags->out, "the run folder (default: runs/NAME-TIME)");
  command->add_option("--resume", flags->resume, "go on with the run in this folder");
  command->add_flag("--print-config", flags->print_config, "print every setting with its meaning, and end");
  command->add_flag("--trace", flags->trace, "write a Chrome trace");
  command->add_option("--join", flags->join,
                      "be one more worker of the job whose workers meet in this store: tcp://HOST:PORT, "
                      "etcd://HOST:PORT,.../RUN, or a folder");
  command->add_flag("--leave", flags->leave,
                    "a worker that gets SIGTERM leaves, and the others go on (default: all save and end)");
  command->add_flag("--demo", flags->demo, "the command is now `kith demo`")->group("");
  add_assignment_flags(*command, flags->assignment);
  command->add_option("--in-run", flags->run)->group("");
  command->add_option("--from-checkpoint", flags->checkpoint)->group("");
  command->callback([flags] {
    outlive_readers();
    run_train(*flags);
  });
}

}  // namespace kith::cli
