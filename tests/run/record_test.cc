// What a run writes down: its folder, metrics, summary and progress.

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/run/metrics.h"
#include "kith/train/run/progress.h"
#include "kith/train/run/run_folder.h"
#include "kith/train/run/summary.h"
#include "tests/run/support.h"

namespace kith::train {
namespace {

using testing::HasSubstr;

TEST(RunFolder, IsNeverWrittenOver) {
  const TestFolder folder;
  folder.write("precious.txt", "mine");
  EXPECT_THAT(failure_of<InputError>([&] { RunFolder::create(Job{}, folder.path()); }),
              HasSubstr("not empty"));
  EXPECT_EQ(read_text(folder.path() / "precious.txt"), "mine");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "config.toml"));
}

TEST(RunFolder, TwoRunsInOneSecondGetTwoFolders) {
  const TestFolder folder;
  Job job;
  job.output.folder = (folder.path() / "runs").string();
  job.output.name = "twin";
  const RunFolder a = RunFolder::create(job, {});
  const RunFolder b = RunFolder::create(job, {});
  EXPECT_NE(a.path(), b.path());
  EXPECT_THAT(a.path().filename().string(), testing::StartsWith("twin-2"));
  EXPECT_EQ(RunFolder::open(a.path()).path(), a.path());
}

TEST(RunFolder, OpensOnlyRunFolders) {
  const TestFolder folder;
  EXPECT_THAT(failure_of<InputError>([&] { RunFolder::open(folder.path()); }), HasSubstr("config.toml"));
}

StepMetrics step_of(std::int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 1.0 / static_cast<double>(step);
  metrics.seconds = 2;
  metrics.waited_seconds = 0.5;
  metrics.bytes_read = 100;
  return metrics;
}

std::vector<int> steps_in(const std::filesystem::path& file) {
  std::vector<int> steps;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    steps.push_back(nlohmann::json::parse(line).at("step").get<int>());
  return steps;
}

TEST(Metrics, AResumedRunDropsTheStepsThatItRepeats) {
  const TestFolder folder;
  const auto file = folder.path() / "worker-0" / "metrics.jsonl";
  {
    MetricsFile metrics(file, 0);
    for (std::int64_t step = 1; step <= 5; ++step)
      metrics.write(step_of(step));
    metrics.write(EvalMetrics{.step = 5, .loss = 1, .accuracy = 0.5, .consensus_distance = 0.1});
    EXPECT_EQ(metrics.totals().steps, 5);
  }
  std::ofstream(file, std::ios::app) << "{\"kind\":\"st";  // a worker was killed while it wrote
  {
    MetricsFile metrics(file, 3);
    EXPECT_EQ(metrics.totals().steps, 3);
    metrics.write(step_of(4));
    EXPECT_EQ(metrics.totals().steps, 4);
    EXPECT_DOUBLE_EQ(metrics.totals().seconds, 8);
    EXPECT_DOUBLE_EQ(metrics.totals().waited_seconds, 2);
    EXPECT_DOUBLE_EQ(metrics.totals().bytes_read, 400);
  }
  EXPECT_THAT(steps_in(file), testing::ElementsAre(1, 2, 3, 4));
}

nlohmann::json line_in(const std::filesystem::path& file, const std::string& kind) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.at("kind") == kind) return json;
  }
  return {};
}

TEST(Metrics, ALineHoldsWhatWasCounted) {
  const TestFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  MetricsFile metrics(file, 0);
  StepMetrics step = step_of(3);
  step.time = 1234.5;
  step.view = 2;
  step.consensus = 0.25;
  step.late = {WorkerId{4}, WorkerId{11}};
  step.gradient_norm = 1e-3;
  step.skipped = true;
  step.peers = {{WorkerId{1}, 0.125, 64}, {WorkerId{4}, 0.5, 0}};
  step.loss = NAN;
  metrics.write(step);
  const auto json = line_in(file, "step");
  EXPECT_EQ(json.at("time"), 1234.5);
  EXPECT_EQ(json.at("view"), 2);
  EXPECT_EQ(json.at("consensus"), 0.25);
  EXPECT_EQ(json.at("waiting_share"), 0.25);
  EXPECT_EQ(json.at("late"), nlohmann::json({4, 11}));
  EXPECT_EQ(json.at("gradient_norm"), 1e-3);
  EXPECT_EQ(json.at("skipped"), true);
  EXPECT_FALSE(json.contains("lost"));
  EXPECT_TRUE(json.at("loss").is_null());
  EXPECT_EQ(json.at("peers").at("1").at("read"), 64);
  EXPECT_EQ(json.at("peers").at("4").at("waited"), 0.5);

  metrics.write(LossMetrics{4, 1234.75, WorkerId{2}, 1, NAN, 6, 0});
  const auto loss = line_in(file, "loss");
  EXPECT_EQ(loss.at("worker"), 2);
  EXPECT_EQ(loss.at("heard"), 1);
  EXPECT_TRUE(loss.at("mean_shift").is_null());
  EXPECT_EQ(loss.at("samples_again"), 6);

  comm::Ledger ledger;
  ledger[WorkerId{1}] = {.arrivals = 2, .bytes_read = 128, .waited = std::chrono::milliseconds(30)};
  ledger[WorkerId{2}] = {};
  metrics.write(LinkMetrics{3, 1235, ledger});
  const auto links = line_in(file, "links").at("peers");
  EXPECT_EQ(links.size(), 1u) << "nothing has passed between it and worker 2";
  EXPECT_EQ(links.at("1").at("waited"), 0.03);
  EXPECT_EQ(links.at("1").at("read"), 128);
}

// While it lives the process cannot make a file longer than `bytes`: what a full disk looks like.
class FullDisk {
 public:
  explicit FullDisk(std::uintmax_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit now = before_;
    now.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*const handler_)(int);
};

class CountingLog final : public Log {
 public:
  void write(LogLevel level, std::string_view) override { warnings += level == LogLevel::warning; }
  int warnings = 0;
};

TEST(Metrics, ADiskThatIsFullForAWhileLosesNothingAndIsSaidOnce) {
  const TestFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  CountingLog log;
  MetricsFile metrics(file, 0, &log);
  metrics.write(step_of(1));
  {
    const FullDisk full(std::filesystem::file_size(file) + 10);  // half a line fits
    for (std::int64_t step = 2; step <= 4; ++step)
      metrics.write(step_of(step));
    EXPECT_EQ(metrics.unwritten(), 3);
  }
  EXPECT_EQ(log.warnings, 1);
  metrics.write(step_of(5));
  EXPECT_EQ(metrics.unwritten(), 0);
  EXPECT_THAT(steps_in(file), testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(log.warnings, 1);
}

TEST(Metrics, AFileThatWasRemovedIsWrittenAnewWithWhatItHeld) {
  const TestFolder folder;
  const auto file = folder.path() / "worker-0" / "metrics.jsonl";
  CountingLog log;
  MetricsFile metrics(file, 0, &log);
  metrics.write(step_of(1));
  metrics.write(step_of(2));
  std::filesystem::remove_all(file.parent_path());
  metrics.write(step_of(3));
  EXPECT_THAT(steps_in(file), testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(metrics.unwritten(), 0);
  EXPECT_EQ(log.warnings, 1);
}

TEST(Metrics, AResumeOnAFullDiskLeavesTheFileAsItWas) {
  const TestFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  {
    MetricsFile metrics(file, 0);
    for (std::int64_t step = 1; step <= 5; ++step)
      metrics.write(step_of(step));
  }
  const std::string before = read_text(file);
  const FullDisk full(10);
  EXPECT_THROW(MetricsFile(file, 3), Error);
  EXPECT_EQ(read_text(file), before);
}

TEST(RunFolder, IsLockedWhileSomebodyWorksInIt) {
  const TestFolder folder;
  const auto path = folder.path() / "run";
  std::optional<RunFolder> first = RunFolder::create(Job{}, path);
  const std::string in_use = failure_of<InputError>([&] { RunFolder::take(path); });
  EXPECT_THAT(in_use, testing::AllOf(HasSubstr(path.string()), HasSubstr(cat("process ", ::getpid(), " on ")),
                                     HasSubstr(" since 20")));
  EXPECT_EQ(RunFolder::open(path).path(), path);  // a worker of the run needs no lock
  const RunFolder copy = *first;
  first.reset();
  EXPECT_THROW(RunFolder::take(path), InputError) << "a copy still works in it";
}

TEST(RunFolder, AFinishedOneIsTakenAgain) {
  const TestFolder folder;
  const auto path = folder.path() / "run";
  RunFolder::create(Job{}, path);
  EXPECT_EQ(RunFolder::take(path).path(), path);
}

// Somebody who has the folder but has not written anything into it yet.
TEST(RunFolder, TwoThatBeginInOneFolderDoNotShareIt) {
  const TestFolder folder;
  const auto path = folder.path() / "run";
  std::filesystem::create_directories(path);
  const RunLock other(path);
  EXPECT_THAT(failure_of<InputError>([&] { RunFolder::create(Job{}, path); }), HasSubstr("in use by"));
  EXPECT_FALSE(std::filesystem::exists(path / "config.toml"));
}

TEST(Summary, ReadsBack) {
  const TestFolder folder;
  const Summary written{.ending = Ending::interrupted,
                        .steps = 12,
                        .parameters = 34,
                        .validation_loss = NAN,
                        .validation_accuracy = 0.5,
                        .consensus_distance = 0.25,
                        .seconds = 12.5,
                        .seconds_per_iteration = 0.125,
                        .waiting_share = 0.0625,
                        .units_per_second = 1000,
                        .unit = "token",
                        .bytes_sent = 4096,
                        .views = 2,
                        .lost = {{.worker = 3,
                                  .step = 17,
                                  .view = 1,
                                  .heard = 15,
                                  .mean_shift = 0.125,
                                  .samples_again = 8,
                                  .samples_unseen = 4},
                                 {.worker = 2, .step = 18, .view = 2}},
                        .missing_weight = 0.5,
                        .missing_rounds = 6,
                        .metrics_lost = 3};
  const Summary read = read_summary(folder.write("summary.json", summary_json(Job{}, written)));
  EXPECT_EQ(read.ending, Ending::interrupted);
  EXPECT_EQ(read.steps, 12);
  EXPECT_EQ(read.parameters, 34);
  EXPECT_TRUE(std::isnan(read.validation_loss));
  EXPECT_EQ(read.validation_accuracy, 0.5);
  EXPECT_EQ(read.consensus_distance, 0.25);
  EXPECT_EQ(read.seconds, 12.5);
  EXPECT_EQ(read.seconds_per_iteration, 0.125);
  EXPECT_EQ(read.waiting_share, 0.0625);
  EXPECT_EQ(read.units_per_second, 1000);
  EXPECT_EQ(read.unit, "token");
  EXPECT_EQ(read.bytes_sent, 4096);
  EXPECT_EQ(read.views, 2);
  ASSERT_EQ(read.lost.size(), 2u);
  EXPECT_EQ(read.lost.front().step, 17);
  EXPECT_EQ(read.lost.front().heard, 15);
  EXPECT_EQ(read.lost.front().mean_shift, 0.125);
  EXPECT_EQ(read.lost.front().samples_again, 8);
  EXPECT_EQ(read.lost.front().samples_unseen, 4);
  EXPECT_EQ(read.lost.back().heard, -1);
  EXPECT_TRUE(std::isnan(read.lost.back().mean_shift));
  EXPECT_EQ(read.missing_rounds, 6);
  EXPECT_EQ(read.missing_weight, 0.5);
  EXPECT_EQ(read.metrics_lost, 3);
  EXPECT_THAT(failure_of<InputError>([&] { read_summary(folder.write("bad.json", "{}")); }),
              HasSubstr("bad.json"));
}

TEST(Summary, ComparesRunsSideBySide) {
  Summary fast;
  fast.validation_loss = 2.5;
  fast.seconds_per_iteration = 0.25;
  fast.bytes_sent = 3 << 20;
  const std::string table = compare({{"one", fast}, {"another", Summary{}}});
  for (const char* part : {"one", "another", "2.5000", "250.0 ms", "3.0 MiB", "time spent waiting"})
    EXPECT_THAT(table, HasSubstr(part));
}

// A clock that a test turns.
class TurnedClock final : public Clock {
 public:
  Time now() const override { return time; }
  Time time{};
};

std::string progress_text(bool terminal) {
  const TestFolder folder;
  const auto file = folder.path() / "out";
  std::FILE* out = std::fopen(file.c_str(), "w");
  {
    TurnedClock clock;
    ProgressOptions options;
    options.out = out;
    options.terminal = terminal;
    options.steps = 20;
    options.line_every = 5;
    options.units_per_step = 1000;
    options.unit = "token";
    Progress progress(options, clock);
    for (std::int64_t step = 1; step <= 10; ++step) {
      clock.time += std::chrono::seconds(2);
      progress.step(step_of(step));
    }
    progress.evaluation({.step = 10, .loss = 1.25, .accuracy = 0.5, .consensus_distance = 0.001});
    clock.time += std::chrono::seconds(2);
    progress.step(step_of(11));
  }
  std::fclose(out);
  return read_text(file);
}

TEST(Progress, PlainLinesForFiles) {
  const std::string text = progress_text(false);
  EXPECT_THAT(text, HasSubstr("step 5/20"));
  EXPECT_THAT(text, HasSubstr("step 10/20"));
  EXPECT_THAT(text, HasSubstr("500 tokens/s"));  // 1000 in 2 s
  EXPECT_THAT(text, HasSubstr("waiting 25.0%"));
  EXPECT_THAT(text, HasSubstr("ETA 0m20s"));
  EXPECT_THAT(text, HasSubstr("validation loss 1.2500"));
  EXPECT_THAT(text, testing::Not(HasSubstr("step 11/20")));
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(Progress, ABarForTerminals) {
  const std::string text = progress_text(true);
  EXPECT_THAT(text, HasSubstr("[############............] 10/20"));
  EXPECT_THAT(text, HasSubstr("11/20"));
  EXPECT_THAT(text, HasSubstr("consensus 1.00e-03"));
  EXPECT_TRUE(text.ends_with("\n"));
}

}  // namespace
}  // namespace kith::train
