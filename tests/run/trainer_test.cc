#include "kith/train/run/trainer.h"

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "kith/base/log.h"
#include "kith/engine/world.h"
#include "kith/launch/threads.h"
#include "kith/train/config/footprint.h"
#include "kith/train/data/dataset.h"
#include "kith/train/models/model.h"
#include "kith/train/torch_error.h"
#include "tests/run/support.h"
#include "tests/support/counting_store.h"

namespace kith::train {
namespace {

// What two workers' training threads ask of the store in a run of `steps`, together.
int store_calls(std::int64_t steps) {
  const TestFolder folder;
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
  const auto dataset = open_dataset(job, {.text = KITH_SHARE "/text/austen.txt", .mnist = {}});
  const TrainerOptions options{
      .job = job, .folder = RunFolder::create(job, folder.path() / "run"), .resume_from = {}};
  const std::atomic<Ending> asked{Ending::finished};
  std::atomic<int> calls{0};
  NullLog log;
  launch::run_threads(2, [&](const launch::World& world) {
    engine::World counted = engine::seen_by_engine(world);
    support::CountingStore store(*counted.store);
    counted.store = &store;
    counted.log = &log;
    EXPECT_EQ(train(options, *dataset, counted, asked).steps, steps);
    calls += store.calls_of_this_thread();
  });
  return calls;
}

TEST(Trainer, StepsAskTheStoreNothing) {
  EXPECT_EQ(store_calls(5), store_calls(25));
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
