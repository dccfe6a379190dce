#include "kith/train/run/trainer.h"

#include <atomic>
#include <nlohmann/json.hpp>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "kith/base/log.h"
#include "kith/engine/world_parts.h"
#include "kith/launch/threads.h"
#include "kith/train/config/footprint.h"
#include "kith/train/data/dataset.h"
#include "kith/train/models/model.h"
#include "kith/train/torch_error.h"
#include "tests/run/support.h"
#include "tests/support/counting_store.h"

namespace kith::train {
namespace {

Job small_job(std::int64_t steps) {
  Job job;
  job.world.workers = 2;
  job.world.backend = "inproc";
  job.model.layers = 1;
  job.model.width = 16;
  job.model.heads = 2;
  job.model.context = 16;
  job.train.batch = 2;
  job.train.steps = steps;
  job.train.eval_every = 0;
  job.train.eval_samples = 8;
  job.rate.warmup = 0;
  return job;
}

// Both workers of a job, as threads. Returns what their training threads asked of the store, together.
int train_two(const Job& job, const std::filesystem::path& folder) {
  const auto dataset = open_dataset(job, {.text = KITH_SHARE "/text/austen.txt", .mnist = {}});
  const TrainerOptions options{.job = job, .folder = RunFolder::create(job, folder), .resume_from = {}};
  const std::atomic<Ending> asked{Ending::finished};
  std::atomic<int> calls{0};
  NullLog log;
  launch::run_threads(2, [&](const launch::World& world) {
    engine::WorldParts counted = engine::seen_by_engine(world);
    support::CountingStore store(*counted.store);
    counted.store = &store;
    counted.log = &log;
    EXPECT_EQ(train(options, *dataset, counted, asked).steps, job.train.steps);
    calls += store.calls_of_this_thread();
  });
  return calls;
}

int store_calls(std::int64_t steps) {
  const TestFolder folder;
  return train_two(small_job(steps), folder.path() / "run");
}

// Worker 1's lines of metrics about steps.
std::vector<nlohmann::json> steps_of(const Job& job) {
  const TestFolder folder;
  train_two(job, folder.path() / "run");
  std::istringstream lines(read_text(RunFolder::open(folder.path() / "run").metrics(1)));
  std::vector<nlohmann::json> steps;
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json json = nlohmann::json::parse(line);
    if (json["kind"] == "step") steps.push_back(std::move(json));
  }
  return steps;
}

TEST(Trainer, StepsAskTheStoreNothing) {
  EXPECT_EQ(store_calls(5), store_calls(25));
}

TEST(Trainer, MeasuresNoiseInEveryEighthStep) {
  Job job = small_job(18);
  const auto measured = steps_of(job);
  ASSERT_EQ(measured.size(), 18U);
  for (const auto& step : measured) {
    const bool expected = step["step"] == 9 || step["step"] == 17;
    ASSERT_EQ(step.contains("noise"), expected) << step;
    if (expected) {
      EXPECT_GT(step["noise"], 0.1);
      EXPECT_LE(step["noise"], 1);
    }
  }
  job.optimizer.noise_every = 0;
  const auto plain = steps_of(job);
  EXPECT_NEAR(plain[0]["loss"].get<double>(), measured[0]["loss"].get<double>(), 1e-5);  // a batch cut in two
  EXPECT_NE(plain[17]["loss"], measured[17]["loss"]);
  for (const auto& step : plain)
    EXPECT_FALSE(step.contains("noise"));
}

// With accumulation no batch is cut: until the rates change, not a bit does.
TEST(Trainer, AccumulationHasTheNoiseForFree) {
  Job job = small_job(10);
  job.train.accumulate = 3;
  const auto measured = steps_of(job);
  job.optimizer.noise_every = 0;
  const auto plain = steps_of(job);
  EXPECT_EQ(plain[1]["loss"], measured[1]["loss"]);
  EXPECT_NE(plain[9]["loss"], measured[9]["loss"]);
  EXPECT_GT(measured[8]["noise"], 0.1);
}

// Half a batch is not averaged: the node's gradient is that of whole ones.
TEST(Trainer, MeasuresNoiseInsideANodeToo) {
  Job job = small_job(10);
  job.algorithm.inside = "allreduce";
  const auto steps = steps_of(job);
  ASSERT_EQ(steps.size(), 10U);
  EXPECT_GT(steps[8]["noise"], 0.1);
  job.optimizer.noise_every = 0;
  EXPECT_NEAR(steps_of(job)[9]["loss"].get<double>(), steps[9]["loss"].get<double>(), 1e-3)
      << "one node is all-reduce, whose rates need no help";
}

TEST(Footprint, KnowsTheParametersOfEveryModel) {
  for (const char* model : {"gpt", "mlp", "cnn"}) {
    Job job;
    job.model.name = model;
    job.model.width = 24;
    job.model.layers = 3;
    EXPECT_EQ(footprint_of(job).parameters, parameter_count(*make_model(job))) << model;
  }
}

TEST(ShortErrors, AreOneLineOfLibTorchs) {
  const std::string problem =
      failure_of<Error>([] { with_short_errors([] { return torch::empty({std::int64_t{1} << 45}); }); });
  EXPECT_THAT(problem, testing::AllOf(testing::StartsWith("LibTorch: "), testing::HasSubstr("memory"),
                                      testing::Not(testing::HasSubstr("\n")),
                                      testing::Not(testing::HasSubstr("frame #"))));
}

}  // namespace
}  // namespace kith::train
