#include "kith/train/run/profiler.h"

#include <mutex>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/launch/threads.h"
#include "kith/train/data/dataset.h"
#include "kith/train/models/model.h"
#include "kith/train/run/model_pass.h"

namespace kith::train {
namespace {

TEST(Profiler, TimesEveryBucketOfEveryStep) {
  Job job;
  job.world.workers = 2;
  job.model.layers = 1;
  job.model.width = 32;
  job.model.heads = 2;
  job.model.context = 16;
  job.train.batch = 2;
  job.train.accumulate = 2;
  job.wire.bucket = "40KiB";
  const auto parameters = static_cast<double>(parameter_count(*make_model(job)));
  const auto dataset = open_dataset(job, {.text = KITH_SHARE "/text/austen.txt", .mnist = {}});
  std::mutex mutex;
  std::vector<JobTimes> all;
  launch::run_threads(2, [&](const launch::World& world) {
    const JobTimes own =
        profile_job(job, *dataset, engine::seen_by_engine(world), {.steps = 6, .warm_up = 1});
    const std::lock_guard lock(mutex);
    all.push_back(own);
  });
  ASSERT_EQ(all.size(), 2u);
  for (const JobTimes& times : all) {
    EXPECT_EQ(times.forward_s.size(), 6u);
    EXPECT_EQ(times.compute_s, all.front().compute_s) << "everybody knows everybody's";
    ASSERT_EQ(times.compute_s.size(), 2u);
    EXPECT_GT(std::min(times.compute_s[0], times.compute_s[1]), 0);
    ASSERT_GT(times.buckets.size(), 1u);
    double bytes = 0;
    for (const BucketTimes& bucket : times.buckets) {
      bytes += bucket.bytes;
      ASSERT_EQ(bucket.backward_s.size(), 6u);
      ASSERT_EQ(bucket.step_s.size(), 6u);
      for (std::size_t i = 0; i < 6; ++i) {
        EXPECT_GE(bucket.backward_s[i], 0);
        EXPECT_GT(bucket.step_s[i], 0);
        EXPECT_LT(bucket.step_s[i], 10);
      }
    }
    EXPECT_EQ(bytes, parameters * 4.0);
    EXPECT_GE(times.batch_cv, 0);
    // What varies for the whole iteration is taken out: all totals are alike.
    const auto total = [&](std::size_t i) {
      double sum = times.forward_s[i];
      for (const BucketTimes& bucket : times.buckets)
        sum += bucket.backward_s[i];
      return sum;
    };
    EXPECT_GT(total(0), 0);
    for (std::size_t i = 1; i < 6; ++i)
      EXPECT_NEAR(total(i), total(0), 1e-9);
  }
}

TEST(Profiler, TellsWhatMessagesCostComputing) {
  // 10 MB in 200 ms of which 40 ms more than alone.
  EXPECT_NEAR(message_cost({.alone_s = 0.16, .mixing_s = 0.2, .waited_s = 0, .sent_bytes = 1e7}), 4e-9,
              1e-15);
  // Half of the bytes travelled while the worker waited.
  EXPECT_NEAR(message_cost({.alone_s = 0.16, .mixing_s = 0.2, .waited_s = 0.2, .sent_bytes = 1e7}), 8e-9,
              1e-15);
  EXPECT_EQ(message_cost({.alone_s = 0.16, .mixing_s = 0.162, .waited_s = 0, .sent_bytes = 1e7}), 0)
      << "chance";
  EXPECT_EQ(message_cost({.alone_s = 0.16, .mixing_s = 0.2, .waited_s = 0, .sent_bytes = 0}), 0)
      << "one machine";
}

TEST(ModelPass, ComputesInTheJobsPrecision) {
  Job job;
  job.model.layers = 1;
  job.model.width = 32;
  job.model.heads = 2;
  job.model.context = 16;
  const auto dataset = open_dataset(job, {.text = KITH_SHARE "/text/austen.txt", .mnist = {}});
  const auto model = model_on(torch::kCPU, job);
  const std::vector<std::uint64_t> samples{0, 1, 2, 3};
  const Batch batch = dataset->train(samples, 0);
  const double plain = loss_of(job, *model, batch).item<double>();
  job.train.precision = "bf16";
  const double rounded = loss_of(job, *model, batch).item<double>();
  EXPECT_NE(rounded, plain);
  EXPECT_NEAR(rounded, plain, 0.02 * plain);
}

bool has_gpu() {
  try {
    return gpus_here() > 0;
  } catch (const InputError&) {
    return false;
  }
}

// A job for GPUs was profiled on the CPU, silently.
TEST(Profiler, DoesNotTakeACpuForAGpu) {
  Job job;
  job.world.workers = 1;
  job.world.device = "cuda";
  const auto dataset = open_dataset(job, {.text = KITH_SHARE "/text/austen.txt", .mnist = {}});
  launch::run_threads(1, [&](const launch::World& world) {
    const auto profile = [&] {
      return profile_job(job, *dataset, engine::seen_by_engine(world), {.steps = 1, .warm_up = 0});
    };
    if (has_gpu()) {
      EXPECT_EQ(profile().forward_s.size(), 1u);
    } else {
      EXPECT_THROW(profile(), InputError);
    }
  });
}

}  // namespace
}  // namespace kith::train
