#include "kith/plan/bucketing.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/plan/profiles.h"

namespace kith::plan {
namespace {

TEST(Bucketing, KeepsBytesAndMeans) {
  const sim::Job job = small_profile().job;
  for (const double target : {1e6, 10e6, 25e6, 40e6, 1e9}) {
    const sim::Job cut = rebucket(job, target);
    EXPECT_NEAR(cut.bytes(), job.bytes(), 1e-3) << target;
    EXPECT_NEAR(cut.forward_backward_s(), job.forward_backward_s(), 1e-12) << target;
    EXPECT_NEAR(cut.step_s(), job.step_s(), 1e-12) << target;
    for (std::size_t b = 0; b + 1 < cut.buckets.size(); ++b)
      EXPECT_GE(cut.buckets[b].bytes, target * (1 - 1e-9)) << target;
  }
}

TEST(Bucketing, CutsAndJoins) {
  const sim::Job job = small_profile().job;
  EXPECT_EQ(rebucket(job, 1e9).buckets.size(), 1U);
  EXPECT_EQ(rebucket(job, 25e6).buckets.size(), 6U);
  EXPECT_EQ(rebucket(job, 50e6).buckets.size(), 3U);
  EXPECT_EQ(rebucket(job, 12.5e6).buckets.size(), 12U);
}

TEST(Bucketing, IndependentSpreadAveragesOut) {
  sim::Job job;
  job.buckets.assign(4, {1e6, sim::Distribution::lognormal(1e-3, 0.2), sim::Distribution::constant(1e-4)});
  const sim::Job cut = rebucket(job, 4e6);
  ASSERT_EQ(cut.buckets.size(), 1U);
  EXPECT_NEAR(cut.buckets[0].backward.cv(), 0.1, 1e-3);
  EXPECT_TRUE(cut.buckets[0].step.is_constant());
}

}  // namespace
}  // namespace kith::plan
