#include "kith/plan/steps_factor.h"

#include <cmath>

#include <gtest/gtest.h>

namespace kith::plan {
namespace {

TEST(StepsFactor, IsTheMeasuredOneWhereItWasMeasured) {
  ASSERT_FALSE(measured_factors().empty());
  for (const MeasuredFactor& row : measured_factors()) {
    const StepsFactor steps = steps_factor(row.topology, row.workers);
    EXPECT_NEAR(steps.factor, row.factor, 1e-12) << row.topology << row.workers;
    EXPECT_NEAR(steps.low, row.low, 1e-12);
    EXPECT_NEAR(steps.high, row.high, 1e-12);
    EXPECT_TRUE(steps.measured);
    EXPECT_FALSE(row.source.empty()) << "every number has its source";
    EXPECT_LE(row.low, row.factor);
    EXPECT_GE(row.high, row.factor);
  }
}

TEST(StepsFactor, OneWorkerNeedsAsManyAsAllReduce) {
  EXPECT_EQ(steps_factor("aer", 1).factor, 1);
}

// The square of the workers has the square of the factor.
TEST(StepsFactor, BetweenAndBeyondItFollowsTheLogarithm) {
  const MeasuredFactor& first = measured_factors().front();
  const double halfway = steps_factor("aer", static_cast<int>(std::lround(std::sqrt(first.workers)))).factor;
  EXPECT_NEAR(halfway, std::sqrt(first.factor), 0.03);
  const MeasuredFactor& last = measured_factors().back();
  EXPECT_GT(steps_factor("aer", last.workers * 8).factor, last.factor);
  EXPECT_FALSE(steps_factor("aer", last.workers * 8).measured);
}

TEST(StepsFactor, ATopologyWithoutNumbersHasThoseOfAer) {
  const StepsFactor ring = steps_factor("ring", 8);
  EXPECT_EQ(ring.factor, steps_factor("aer", 8).factor);
  EXPECT_FALSE(ring.measured);
}

TEST(StepsFactor, AsText) {
  EXPECT_EQ(text_of({.factor = 1.4, .low = 1.15, .high = 1.72, .measured = true}), "1.40 (1.15 to 1.72)");
  EXPECT_EQ(text_of({.factor = 1.4, .low = 1.15, .high = 1.72, .measured = false}), "~1.40 (1.15 to 1.72)");
}

}  // namespace
}  // namespace kith::plan
