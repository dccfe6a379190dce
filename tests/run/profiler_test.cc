#include "kith/train/run/profiler.h"

#include <mutex>

#include <gtest/gtest.h>

#include "kith/launch/threads.h"
#include "kith/train/data/dataset.h"
#include "kith/train/models/model.h"

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

}  // namespace
}  // namespace kith::train
