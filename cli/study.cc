#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "cli/commands.h"
#include "cli/data_folders.h"
#include "cli/run.h"
#include "cli/study_folder.h"
#include "cli/study_progress.h"
#include "cli/supervisor.h"
#include "cli/training.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/launch/assignment.h"
#include "kith/train/config/read.h"
#include "kith/train/run/local.h"
#include "kith/train/study/report.h"

namespace kith::cli {
namespace {

namespace study = train::study;

constexpr std::size_t kLinesOfAFailure = 5;

struct StudyFlags {
  std::string file, out;
  std::optional<int> jobs;
  bool report = false, list = false, keep = false;
};

train::Job job_in_design(const study::Design& design, const study::Run& run) {
  return train::read_job({.file = design.job, .settings = run.settings}).job;
}

// Runs what the study wants, several at a time, until all is done or somebody stops it.
class StudyRunner {
 public:
  StudyRunner(const StudyFlags& flags, const study::Design& design, const std::vector<study::Cell>& cells,
              const StudyFolder& folder)
      : flags_(flags),
        design_(design),
        cells_(cells),
        folder_(folder),
        results_(folder.read(design, cells)),
        progress_(folder.log(), ::isatty(STDOUT_FILENO) == 1),
        supervisor_({.independent = true, .on_signal = [this](int signal) { stop(signal); }}) {}

  // Returns the exit code.
  int run() {
    fill();
    supervisor_.wait();
    if (signal_ != 0) {
      progress_.note("stopped; what is finished is kept, and the same command goes on");
      return 128 + signal_;
    }
    const auto failed = [](const auto& entry) { return entry.second.failed; };
    return std::ranges::any_of(results_, failed) ? kFailed : 0;
  }
  const study::Results& results() const { return results_; }

 private:
  struct Child {
    study::Run run;
    std::int64_t cores = 1;
    bool resumed = false;
    std::ofstream output;
    std::deque<std::string> last_lines;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  };

  void stop(int signal) {
    if (signal_ == 0) progress_.note("stopping; runs under way save first (Ctrl-C again: at once)");
    signal_ = signal;
  }

  bool fits(std::int64_t cores) const {
    if (running_.empty()) return true;
    if (flags_.jobs) return static_cast<int>(running_.size()) < *flags_.jobs;
    return cores_used_ + cores <= static_cast<std::int64_t>(std::thread::hardware_concurrency());
  }

  // Starts what can be started now.
  void fill() {
    while (signal_ == 0) {
      const std::vector<study::Run> wanted = study::wanted_runs(design_, cells_, results_);
      tell(wanted);
      std::set<std::string> names;
      for (const auto& [name, child] : running_)
        names.insert(name);
      const study::Run* const next = study::next_run(wanted, results_, names);
      if (next == nullptr) return;
      // Of a study that was edited: it was not wanted when the folder was read.
      if (study::left_of(folder_.run(*next)) == study::Left::all) {
        results_[next->name] = study::read_result(folder_.run(*next));
        continue;
      }
      const train::Job job = job_in_design(design_, *next);
      const std::int64_t cores = job.world.workers * job.world.compute_threads;
      if (!fits(cores)) return;
      start(*next, cores);
    }
  }

  void tell(const std::vector<study::Run>& wanted) {
    StudyProgress::State state{.done = results_.size(),
                               .all = study::total_runs(design_, cells_, results_),
                               .running = running_.size(),
                               .steps_done = steps_done_,
                               .steps_left = 0};
    for (const study::Run& run : wanted)
      if (!results_.contains(run.name)) state.steps_left += run.steps;
    progress_.set(state);
  }

  void start(const study::Run& run, std::int64_t cores) {
    std::vector<std::string> command{own_program()};
    const std::vector<std::string> words = folder_.prepare(design_, run);
    command.insert(command.end(), words.begin(), words.end());
    const bool resumed = words[1] == "--resume";
    Child& child = running_[run.name];
    child.run = run;
    child.cores = cores;
    child.resumed = resumed;
    child.output.open(folder_.output(run), resumed ? std::ios::app : std::ios::trunc);
    cores_used_ += cores;
    progress_.started(cat(run.title, resumed ? ": goes on" : ": started"));
    const auto hear = [this, &child](Stream, std::string_view line) {
      child.output << line << "\n";
      child.last_lines.emplace_back(line);
      if (child.last_lines.size() > kLinesOfAFailure) child.last_lines.pop_front();
      progress_.refresh();
    };
    supervisor_.start({.command = command,
                       .on_line = hear,
                       .on_end = [this, name = run.name](const Ending& ending) { ended(name, ending); }});
  }

  void ended(const std::string& name, const Ending& ending) {
    auto node = running_.extract(name);
    Child& child = node.mapped();
    child.output.close();
    cores_used_ -= child.cores;
    if (study::left_of(folder_.run(child.run)) == study::Left::all) {
      finished(child);
    } else if (signal_ != 0) {
      return;  // it was stopped, and is wanted again next time
    } else if (child.resumed) {
      progress_.note(cat(child.run.title, ": could not go on; starts anew"));
      folder_.clear(child.run);
    } else {
      results_[name] = {.failed = true};
      tell(study::wanted_runs(design_, cells_, results_));
      progress_.note(
          cat(child.run.title, ": FAILED, ", ending.text, "; see ", folder_.output(child.run).string()));
      for (const std::string& line : child.last_lines)
        progress_.note("    " + line);
    }
    fill();
  }

  void finished(const Child& child) {
    const study::Result& result = results_[child.run.name] = study::read_result(folder_.run(child.run));
    if (!flags_.keep) folder_.drop_models(child.run);
    steps_done_ += child.run.steps;
    tell(study::wanted_runs(design_, cells_, results_));
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - child.start).count();
    progress_.note(cat(child.run.title, ": loss ", result.loss, " in ", std::lround(seconds), " s"));
    folder_.write_report(design_, cells_, results_);
  }

  const StudyFlags& flags_;
  const study::Design& design_;
  const std::vector<study::Cell>& cells_;
  const StudyFolder& folder_;
  study::Results results_;
  StudyProgress progress_;
  std::map<std::string, Child> running_;
  std::int64_t cores_used_ = 0;
  std::int64_t steps_done_ = 0;  // since the start
  int signal_ = 0;               // that asked to stop
  Supervisor supervisor_;
};

void refuse_launchers() {
  const launch::Assignment assignment = launch::discover(launch::read_environment());
  if (assignment.workers > 1)
    throw InputError(cat(assignment.launcher, " started ", assignment.workers, " workers"), "kith study",
                     "a study starts its own; run it without a launcher");
}

// What every run needs and a file cannot tell: data, GPUs, memory.
void check_machine_for(const study::Design& design, const std::vector<study::Cell>& cells) {
  for (const study::Cell& cell : cells) {
    const train::Job job =
        job_in_design(design, study::measuring_runs(design, cell, cell.first_choice()).front());
    train::check_machine(job, static_cast<int>(job.world.workers));
    train::check_data(job, data_folders());
  }
}

void run_study(const StudyFlags& flags) {
  if (flags.jobs && *flags.jobs < 1)
    throw InputError(cat(*flags.jobs, " is out of range"), "--jobs", "1 or more");
  refuse_launchers();
  const study::Design design = study::read_design(flags.file);
  const std::vector<study::Cell> cells = study::cells_of(design);
  const std::filesystem::path named(flags.file);
  StudyFolder folder(flags.out.empty() ? "runs" / named.stem() : std::filesystem::path(flags.out));
  if (flags.list) {
    const study::Results results = folder.read(design, cells);
    for (const study::Run& run : study::wanted_runs(design, cells, results))
      std::cout << (results.contains(run.name) ? "done  " : "to do ")
                << command_text(design, run, folder.run(run)) << "\n";
    return;
  }
  if (flags.report) {
    std::cout << study::table_text(study::report_on(design, cells, folder.read(design, cells)));
    return;
  }
  check_machine_for(design, cells);
  folder.take();
  StudyRunner runner(flags, design, cells, folder);
  const int code = runner.run();
  folder.write_report(design, cells, runner.results());
  std::cout << "\n"
            << study::table_text(study::report_on(design, cells, runner.results()))
            << "\nstudy folder: " << folder.path().string()
            << " (study.json, table.txt, lengths.svg, commands.txt)\n";
  if (code != 0) throw ExitCode{code};
}

}  // namespace

void add_study(CLI::App& app) {
  auto flags = std::make_shared<StudyFlags>();
  CLI::App* group = app.add_subcommand("study", kStudySummary);
  group->require_subcommand(1);
  CLI::App* command =
      group->add_subcommand("quality", "Losses and steps of methods over a grid of runs, with intervals");
  command->add_option("study", flags->file, "TOML file that says what is compared (docs/study.md)")
      ->required();
  command->add_option("--out", flags->out,
                      "the study folder (default: runs/NAME of the file); goes on where it has runs");
  command->add_option("--jobs", flags->jobs, "runs at a time (default: as many as their workers have cores)");
  command->add_flag("--report", flags->report, "the table of what is done, without running anything");
  command->add_flag("--list", flags->list, "every run's command, without running anything");
  command->add_flag("--keep-models", flags->keep, "keep checkpoints and models of finished runs");
  command->callback([flags] {
    outlive_readers();
    run_study(*flags);
  });
  add_study_methods(*group);
}

}  // namespace kith::cli
