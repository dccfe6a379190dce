#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/data_folders.h"
#include "cli/demo_hosts.h"
#include "cli/demo_report.h"
#include "cli/run.h"
#include "cli/supervisor.h"
#include "cli/training.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/launch/assignment.h"
#include "kith/observe/report.h"
#include "kith/train/config/read.h"
#include "kith/train/data/shipped.h"
#include "kith/train/run/local.h"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kHosts = 4;
constexpr auto kLinePause = std::chrono::seconds(5);  // between lines of progress
constexpr double kOverheadS = 15;                     // of a run: starting, evaluating, saving

struct DemoFlags {
  std::string rate = "200mbit";
  double seconds = 60;
  std::string out;
  std::vector<std::string> sets;
};

struct Method {
  std::string name, title;
  std::vector<std::string> settings;
};

// What both methods have in common; and each method's rate, which docs/results/demo.md has the search for.
const std::vector<std::string> kCommon{"world.workers=4",      "model.width=128", "wire.type=bf16",
                                       "optimizer.name=adamw", "rate.warmup=20",  "train.eval_samples=512",
                                       "output.log_every=1",   "output.name=demo"};
const std::vector<Method> kMethods{
    {"allreduce", "all-reduce", {"algorithm.name=allreduce", "rate.lr=4e-3"}},
    {"decentralised", "decentralised", {"algorithm.name=awc", "topology.name=aer", "rate.lr=4e-3"}}};

std::vector<std::string> settings_of(const DemoFlags& flags, const Method& method) {
  std::vector<std::string> settings = kCommon;
  settings.push_back(cat("train.seconds=", flags.seconds));
  settings.insert(settings.end(), method.settings.begin(), method.settings.end());
  settings.insert(settings.end(), flags.sets.begin(), flags.sets.end());
  return settings;
}

train::Job job_of(const DemoFlags& flags, const Method& method) {
  std::vector<train::Setting> settings;
  for (const std::string& set : settings_of(flags, method))
    settings.push_back({set, "--set"});
  return train::read_job({.file = {}, .settings = settings}).job;
}

void check(const DemoFlags& flags) {
  parse_rate(flags.rate);
  if (!(flags.seconds > 0)) throw InputError(cat(flags.seconds, " is out of range"), "--seconds", "above 0");
  const launch::Assignment assignment = launch::discover(launch::read_environment());
  if (assignment.workers > 1) {
    throw InputError(cat(assignment.launcher, " started ", assignment.workers, " workers"), "kith demo",
                     "the demo starts its own; run it without a launcher");
  }
  for (const Method& method : kMethods)
    train::check_data(job_of(flags, method), data_folders());
}

// The job, evaluations as they come, and a step now and then.
class Lines {
 public:
  void operator()(std::string_view line) {
    const auto now = std::chrono::steady_clock::now();
    const bool evaluation = line.find("validation loss") != std::string_view::npos;
    const bool job = line.find(" parameters, ") != std::string_view::npos;
    const bool step = line.starts_with("step ") && line.find("saved") == std::string_view::npos;
    if (!evaluation && !job && !(step && now - shown_ >= kLinePause)) return;
    shown_ = now;
    std::cout << "  " << line << std::endl;
  }

 private:
  std::chrono::steady_clock::time_point shown_{};
};

DemoResult run_method(const DemoFlags& flags, const Method& method, const DemoHosts* hosts,
                      const fs::path& top) {
  std::cout << "\n== " << method.title << ", " << flags.seconds << " s" << std::endl;
  const fs::path folder = top / method.name;
  std::vector<std::string> command{own_program(), "train", "--out", folder.string()};
  for (const std::string& set : settings_of(flags, method))
    command.insert(command.end(), {"--set", set});
  Lines lines;
  const DemoHosts::OnLine on_line = std::ref(lines);
  const double limit_s = 3 * flags.seconds + 120;
  const int code = hosts != nullptr ? hosts->run(command, limit_s, on_line)
                                    : run_heard(command, on_line,
                                                [](std::string_view line) { std::cerr << line << "\n"; });
  if (is_stop(code)) {
    std::error_code ignored;
    fs::remove_all(top, ignored);
    std::cout << "stopped; nothing is left behind" << std::endl;
    throw ExitCode{code};
  }
  if (code != 0)
    throw Error(cat(method.title, " ended with exit code ", code), top.string(), "its messages are above");
  return read_result(method.name, method.title, folder);
}

std::string describe(const DemoLink& link) {
  return link.rate.empty() ? cat(kHosts, " workers that share memory")
                           : cat(link.hosts, " hosts behind links of ", link.rate, "/s");
}

void show(const std::vector<DemoResult>& results) {
  std::vector<train::SummaryColumn> columns;
  for (const DemoResult& result : results)
    columns.push_back({result.title, result.summary});
  std::cout << "\n" << train::compare(columns) << "\n" << plot_text(results);
}

void write(const fs::path& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  if (!out.flush()) throw Error("cannot be written", file.string());
}

void show_recorded() {
  const RecordedDemo recorded =
      read_demo(train::shipped_file(fs::read_symlink("/proc/self/exe"), "demo/recorded.json"));
  std::cout << "\nWithout a slow link there is nothing for decentralised training to win. What it wins on "
            << describe(recorded.link) << ", recorded (docs/results/demo.md):\n";
  show(recorded.results);
}

// Both runs laid over each other.
std::string report_of(const fs::path& top) {
  std::vector<std::unique_ptr<observe::RunReader>> readers;
  std::vector<const observe::RunReader*> runs;
  for (const Method& method : kMethods) {
    readers.push_back(std::make_unique<observe::RunReader>(top / method.name));
    runs.push_back(readers.back().get());
  }
  return observe::compare_html(runs, "kith demo");
}

void run_demo(const DemoFlags& flags) {
  check(flags);
  const DemoHosts hosts(kHosts, flags.rate);
  const std::string obstacle = hosts.obstacle();
  DemoLink link;
  if (obstacle.empty())
    link = {.rate = flags.rate, .bits_per_second = parse_rate(flags.rate), .hosts = kHosts};
  else
    std::cout
        << "No hosts can be made here, so the workers share this machine's memory instead of a slow link.\n("
        << obstacle << ")\n\n";
  const double total = static_cast<double>(kMethods.size()) * (flags.seconds + kOverheadS);
  std::cout << "A GPT learns two novels by Jane Austen on " << describe(link) << ", twice, for "
            << flags.seconds << " s of training each: by all-reduce, then decentralised.\nThat takes about "
            << total << " s in all. Ctrl-C ends it and leaves nothing behind." << std::endl;
  const fs::path top = train::RunFolder::reserve(job_of(flags, kMethods.front()), flags.out);
  std::vector<DemoResult> results;
  for (const Method& method : kMethods)
    results.push_back(run_method(flags, method, obstacle.empty() ? &hosts : nullptr, top));
  write(top / "demo.json", demo_json(link, results));
  write(top / "demo.svg", plot_svg(results, cat("The same time on ", describe(link))));
  show(results);
  if (!obstacle.empty()) show_recorded();
  write(top / "report.html", report_of(top));
  std::cout << "\nrun folder: " << top.string()
            << " (demo.json, demo.svg)\nreport: " << (top / "report.html").string() << "\n";
}

}  // namespace

void add_demo(CLI::App& app) {
  auto flags = std::make_shared<DemoFlags>();
  CLI::App* command = app.add_subcommand("demo", kDemoSummary);
  command->add_option("--rate", flags->rate, "of each host's link, each way: 200mbit (default), 1gbit");
  command->add_option("--seconds", flags->seconds, "of training for each of the two (default: 60)");
  command->add_option("--out", flags->out, "the run folder (default: runs/demo-TIME)");
  command->add_option("--set", flags->sets, "KEY=VALUE for both jobs, as kith train takes it; repeatable")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->callback([flags] { run_demo(*flags); });
}

}  // namespace kith::cli
