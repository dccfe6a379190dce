#include "kith/train/run/time_budget.h"

#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace kith::train {
namespace {

struct Record {
  std::int64_t steps = 0;
  double seconds = 0;
  std::vector<double> reckonings;  // seconds
};

// A run whose step number s takes pace(s) seconds.
Record simulate(const TimeBudgetOptions& options, const std::function<double(std::int64_t)>& pace) {
  TimeBudget budget(options);
  Record record;
  while (record.steps < budget.steps()) {
    record.seconds += pace(record.steps++);
    if (record.steps != budget.next()) continue;
    budget.reckon(record.steps, record.seconds);
    record.reckonings.push_back(record.seconds);
  }
  return record;
}

TEST(TimeBudget, KnowsNothingAtFirst) {
  const TimeBudget budget({.seconds = 10, .stages = 8, .first_steps = 7});
  EXPECT_EQ(budget.steps(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(budget.next(), 7);
}

TEST(TimeBudget, EndsWithItsTime) {
  const Record even = simulate({.seconds = 10}, [](std::int64_t) { return 0.1; });
  EXPECT_EQ(even.steps, 100);
  EXPECT_EQ(even.reckonings.size(), 8U) << "the first steps, then seven of the eight stages' ends";

  const Record slow_start = simulate({.seconds = 10}, [](std::int64_t s) { return s < 10 ? 0.3 : 0.05; });
  EXPECT_NEAR(slow_start.seconds, 10, 0.05);
}

TEST(TimeBudget, FollowsAPaceThatChanges) {
  const Record slower = simulate({.seconds = 10}, [](std::int64_t s) { return s < 50 ? 0.1 : 0.2; });
  EXPECT_NEAR(slower.seconds, 10, 0.2);
  EXPECT_NEAR(static_cast<double>(slower.steps), 75, 1);
}

TEST(TimeBudget, IsOverWhenTheFirstStepsTookItAll) {
  const Record late =
      simulate({.seconds = 1, .stages = 8, .first_steps = 3}, [](std::int64_t) { return 2.0; });
  EXPECT_EQ(late.steps, 3);
}

// A resumed run reckons before its first step.
TEST(TimeBudget, GoesOnFromWhatWasSpent) {
  TimeBudget budget({.seconds = 10});
  budget.reckon(40, 4.0);
  EXPECT_EQ(budget.steps(), 100);
  budget.reckon(50, 10.5);
  EXPECT_EQ(budget.steps(), 50);
}

}  // namespace
}  // namespace kith::train
