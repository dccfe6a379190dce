#include "kith/train/run/slow_worker.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/log.h"
#include "kith/launch/threads.h"
#include "kith/train/data/dataset.h"
#include "kith/train/run/trainer.h"
#include "tests/run/support.h"

namespace kith::train {
namespace {

TEST(SlowWorker, IsNamedWhereItIsAQuarterAboveTheMedian) {
  EXPECT_EQ(slowest_of(std::vector{0.10, 0.11, 0.31, 0.09}), 2);
  EXPECT_EQ(slowest_of(std::vector{0.10, 0.11, 0.12, 0.09}), std::nullopt);
  EXPECT_EQ(slowest_of(std::vector<double>{0.10, NAN, 0.31, 0.09}), 2)
      << "of a missing worker nothing is known";
  EXPECT_EQ(slowest_of(std::vector{0.31}), std::nullopt);
  EXPECT_EQ(slowest_of(std::vector{0.0, 0.0}), std::nullopt);
}

TEST(SlowWorker, TheTextSaysWhoWhereAndWhatItCosts) {
  EXPECT_EQ(
      text_of({WorkerId{3}, 0.31, 0.1, 0.123}, "a7"),
      "worker 3 on a7 is the slowest: 0.31 s of its own a step, the median is 0.1 s; waiting for it took 12% "
      "of everybody's time");
}

// Worker 1 takes three times as long, and the others wait for it.
TEST(SlowWorker, TheWorkersFindItTogether) {
  launch::run_threads(3, [](const launch::World& world) {
    const auto net = torch::nn::Linear(2, 2);
    DecentralizedDataParallel wrapped(net.ptr(), world);
    const engine::WorldParts parts = engine::seen_by_engine(world);
    SlowWorkers slow(parts);
    for (int step = 0; step < 4; ++step) {
      StepMetrics metrics;
      metrics.seconds = 0.3;
      if (world.rank() != 1) {
        metrics.waited_seconds = 0.2;
        metrics.peers = {{WorkerId{1}, 0.2, 0}};
      }
      slow.note(metrics);
    }
    const auto found = slow.ask(wrapped);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->worker, WorkerId{1});
    EXPECT_NEAR(found->own, 0.3, 1e-9);
    EXPECT_NEAR(found->median, 0.1, 1e-9);
    EXPECT_NEAR(found->share, 2.0 / 3 * 2 / 3, 1e-9);
    EXPECT_FALSE(slow.host_of(WorkerId{1}).empty());
    EXPECT_FALSE(slow.ask(wrapped)) << "the steps since then are none";
  });
}

// Somebody whose disk is slow.
class SlowDataset final : public Dataset {
 public:
  explicit SlowDataset(const Dataset& data) : data_(data) {}
  std::uint64_t train_samples() const override { return data_.train_samples(); }
  std::uint64_t validation_samples() const override { return data_.validation_samples(); }
  Batch train(std::span<const std::uint64_t> samples, std::uint64_t epoch) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    return data_.train(samples, epoch);
  }
  Batch validation(std::span<const std::uint64_t> samples) const override {
    return data_.validation(samples);
  }

 private:
  const Dataset& data_;
};

Job job_of_three() {
  Job job;
  job.world.workers = 3;
  job.world.backend = "inproc";
  job.model.layers = 1;
  job.model.width = 16;
  job.model.heads = 2;
  job.model.context = 16;
  job.train.batch = 2;
  job.train.steps = 60;
  job.train.eval_every = 6;
  job.train.eval_samples = 8;
  job.rate.warmup = 0;
  return job;
}

class LinesLog final : public Log {
 public:
  void write(LogLevel, std::string_view text) override {
    const std::lock_guard lock(mutex_);
    lines_ += std::string(text) + "\n";
  }
  std::string text() const { return lines_; }

 private:
  std::mutex mutex_;
  std::string lines_;
};

struct Ended {
  std::vector<Summary> workers = std::vector<Summary>(3);
  nlohmann::json told;  // summary.json
  std::string warnings;
};

// Trains with three workers, of whom one is slow.
Ended train_with_slow(const Job& job, int slow) {
  const TestFolder folder;
  const auto dataset = open_dataset(job, {.text = KITH_SHARE "/text/austen.txt", .mnist = {}});
  const SlowDataset slow_data(*dataset);
  const TrainerOptions options{
      .job = job, .folder = RunFolder::create(job, folder.path() / "run"), .resume_from = {}};
  const std::atomic<Ending> asked{Ending::finished};
  LinesLog log;
  Ended ended;
  launch::run_threads(3, [&](const launch::World& world) {
    engine::WorldParts parts = engine::seen_by_engine(world);
    parts.log = &log;
    const auto worker = static_cast<std::size_t>(world.rank());
    const bool is_slow = world.rank() == slow;
    ended.workers[worker] =
        train(options, is_slow ? static_cast<const Dataset&>(slow_data) : *dataset, parts, asked);
  });
  ended.told = nlohmann::json::parse(read_text(options.folder.summary()));
  ended.warnings = log.text();
  return ended;
}

// Also the one that writes the summary.
class LeavingOut : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(SlowWorker, LeavingOut, testing::Values(0, 2));

TEST_P(LeavingOut, WhoIsAlwaysTheSlowestIsLeftOutWhenToldSo) {
  Job job = job_of_three();
  job.world.leave_out_slow = 2;
  const Ended ended = train_with_slow(job, GetParam());
  ASSERT_EQ(ended.told["left"].size(), 1u) << ended.told;
  EXPECT_EQ(ended.told["left"][0]["worker"], GetParam());
  EXPECT_EQ(ended.told["left"][0]["why"], "slow");
  EXPECT_GE(ended.told["left"][0]["step"], 2 * job.train.eval_every) << "two evaluations have named it";
  EXPECT_TRUE(ended.told["lost"].empty());
  EXPECT_EQ(ended.told["missing_rounds"], 0) << "it mixes on until the others do without it";
  EXPECT_THAT(ended.warnings,
              testing::HasSubstr("leaves: the others waited for it in 2 evaluations in a row"));
  for (int worker = 0; worker < 3; ++worker) {
    const Summary& own = ended.workers[static_cast<std::size_t>(worker)];
    EXPECT_EQ(own.ending, worker == GetParam() ? Ending::left : Ending::finished);
    if (worker != GetParam()) {
      EXPECT_EQ(own.steps, job.train.steps);
    }
  }
}

TEST(SlowWorker, StaysWhereNobodySaysOtherwise) {
  Job job = job_of_three();
  job.train.steps = 30;
  const Ended ended = train_with_slow(job, 2);
  EXPECT_EQ(ended.told["views"], 1);
  EXPECT_TRUE(ended.told["left"].empty());
}

TEST(SlowWorker, StaysWhereTheOthersWouldBeTooFew) {
  Job job = job_of_three();
  job.train.steps = 30;
  job.world.leave_out_slow = 2;
  job.world.least = 3;
  const Ended ended = train_with_slow(job, 2);
  EXPECT_EQ(ended.told["views"], 1);
  EXPECT_THAT(ended.warnings, testing::HasSubstr("is too slow, and stays"));
}

}  // namespace
}  // namespace kith::train
