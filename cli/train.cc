#include <atomic>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "cli/commands.h"
#include "cli/data_folders.h"
#include "cli/interrupt_watch.h"
#include "cli/local_workers.h"
#include "cli/run.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/checkpoint_folder.h"
#include "kith/train/config/read.h"
#include "kith/train/config/schema.h"
#include "kith/train/run/local.h"

namespace kith::cli {
namespace {

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

// Runs the job's workers in the folder and returns the exit code.
int run_workers(const train::Job& job, const train::RunFolder& folder,
                const std::filesystem::path& checkpoint) {
  int code = 0;
  if (job.world.backend == "inproc") {
    InterruptWatch watch;
    const train::TrainerOptions options{job, folder, checkpoint, ::isatty(STDOUT_FILENO) == 1};
    const train::Summary summary = train::train_in_threads(options, data_folders(), watch.interrupted());
    if (summary.ending == train::Ending::interrupted) code = kInterrupted;
  } else {
    std::vector<std::string> arguments{"train", "--in-run", folder.path().string()};
    if (!checkpoint.empty()) arguments.insert(arguments.end(), {"--from-checkpoint", checkpoint.string()});
    code = run_local_workers(static_cast<int>(job.world.workers), arguments);
  }
  if (job.output.trace && (code == 0 || code == kInterrupted)) train::merge_run_traces(job, folder);
  return code;
}

void run_as_worker(const TrainFlags& flags) {
  const auto place = local_place();
  if (!place)
    throw InputError("this process is not a worker", "--in-run", "kith gives it to its own workers alone");
  InterruptWatch watch;
  const train::RunFolder folder = train::RunFolder::open(flags.run);
  const train::Job job = train::read_job({.file = folder.config().string(), .settings = {}}).job;
  const train::TrainerOptions options{job, folder, flags.checkpoint, ::isatty(STDOUT_FILENO) == 1};
  const train::Summary summary =
      train::train_in_process(options, data_folders(), place->worker, place->store, watch.interrupted());
  if (summary.ending == train::Ending::interrupted) throw ExitCode{kInterrupted};
}

void report_ending(const train::RunFolder& folder, int code) {
  if (code == 0) std::cout << "run folder: " << folder.path().string() << "\n";
  if (code == kInterrupted)
    std::cout << "stopped; go on with: kith train --resume " << folder.path().string() << "\n";
  if (code != 0) throw ExitCode{code};
}

void run_fresh(const TrainFlags& flags) {
  const train::Job job = train::read_job({.file = flags.config, .settings = settings_of(flags)}).job;
  if (flags.print_config) {
    std::cout << train::print_config(job);
    return;
  }
  train::check_data(job, data_folders());
  const train::RunFolder folder = train::RunFolder::create(job, flags.out);
  report_ending(folder, run_workers(job, folder, {}));
}

void resume(const TrainFlags& flags) {
  if (!flags.config.empty()) {
    throw InputError(cat("'", flags.config, "' is given too"), "--resume",
                     "a run goes on with its own config.toml; change what may change with --set");
  }
  if (!flags.out.empty())
    throw InputError(cat("'", flags.out, "' is given too"), "--out", "a run goes on in its own folder");
  const std::vector<train::Setting> settings = settings_of(flags);
  train::check_resumable(settings);
  const train::RunFolder folder = train::RunFolder::open(flags.resume);
  const train::Job job = train::read_job({.file = folder.config().string(), .settings = settings}).job;
  const auto checkpoints = train::list_checkpoints(folder.checkpoints());
  if (checkpoints.empty()) {
    throw InputError("there is no checkpoint to go on from", folder.checkpoints().string(),
                     "start the run anew");
  }
  const train::Manifest manifest = train::verify_checkpoint(checkpoints.front());
  const std::int64_t steps = train::check_data(job, data_folders());
  if (manifest.step >= steps) {
    throw InputError(cat("the run has done its ", steps, " steps"), folder.path().string(),
                     "give it more with --set train.steps=N (or train.epochs)");
  }
  folder.write_config(job);
  report_ending(folder, run_workers(job, folder, checkpoints.front()));
}

struct DemoRun {
  std::string title;
  std::string name;
  std::vector<train::Setting> settings;
};

// Both jobs of the demo, checked, before the first begins.
void run_demo(const TrainFlags& flags) {
  if (!flags.config.empty())
    throw InputError(cat("'", flags.config, "' is given too"), "--demo",
                     "the demo has its own job; change it with --set");
  const std::vector<DemoRun> runs{
      {"accum-adamw on aer", "decentralised", {}},
      {"adamw, all-reduce",
       "allreduce",
       {{"algorithm.name=allreduce", "--demo"}, {"optimizer.name=adamw", "--demo"}}}};
  std::vector<train::Job> jobs;
  for (const DemoRun& run : runs) {
    std::vector<train::Setting> settings{{"output.name=demo", "--demo"}};
    if (!flags.workers) settings.push_back({"world.nodes=2x2", "--demo"});
    for (const train::Setting& setting : settings_of(flags))
      settings.push_back(setting);
    settings.insert(settings.end(), run.settings.begin(), run.settings.end());
    jobs.push_back(train::read_job({.file = {}, .settings = settings}).job);
    train::check_data(jobs.back(), data_folders());
  }
  const std::filesystem::path top = train::RunFolder::reserve(jobs.front(), flags.out);
  std::vector<train::SummaryColumn> columns;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::cout << "== " << runs[i].title << std::endl;
    const train::RunFolder folder = train::RunFolder::create(jobs[i], top / runs[i].name);
    if (const int code = run_workers(jobs[i], folder, {})) report_ending(folder, code);
    columns.push_back({runs[i].title, train::read_summary(folder.summary())});
  }
  std::cout << "\n" << train::compare(columns) << "\nrun folder: " << top.string() << "\n";
}

void run_train(const TrainFlags& flags) {
  if (!flags.run.empty()) return run_as_worker(flags);
  if (!flags.resume.empty()) return resume(flags);
  if (flags.demo) return run_demo(flags);
  run_fresh(flags);
}

}  // namespace

void add_train(CLI::App& app) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app.add_subcommand("train", "Train a model on local workers");
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
  command->add_flag("--demo", flags->demo, "train decentralised and by all-reduce, and compare");
  command->add_option("--in-run", flags->run)->group("");
  command->add_option("--from-checkpoint", flags->checkpoint)->group("");
  command->callback([flags] { run_train(*flags); });
}

}  // namespace kith::cli
