#include "kith/engine/round_patience.h"

#include <gtest/gtest.h>

namespace kith::engine {
namespace {

using namespace std::chrono_literals;

// What a step waits after steps that took these times.
class Steps {
 public:
  explicit Steps(RoundPatienceOptions options) : patience_(options) { patience_.begin_step(now_); }

  void take(Clock::Duration each, int times = 1) {
    for (int t = 0; t < times; ++t)
      patience_.begin_step(now_ += each);
  }
  Clock::Duration waits() const { return patience_.now(); }

 private:
  RoundPatience patience_;
  Clock::Time now_{};
};

TEST(RoundPatience, IsTheLongestBeforeStepsAreKnown) {
  Steps steps({.longest = 600s});
  steps.take(1ms, 15);
  EXPECT_EQ(steps.waits(), 600s);
  steps.take(1ms);
  EXPECT_EQ(steps.waits(), 30s);
}

TEST(RoundPatience, GrowsWithTheSteps) {
  Steps steps({.longest = 600s});
  steps.take(20s, 100);
  EXPECT_EQ(steps.waits(), 200s);
  steps.take(100s, 100);
  EXPECT_EQ(steps.waits(), 600s) << "never longer than it was told";
  steps.take(5s, 256);
  EXPECT_EQ(steps.waits(), 50s) << "what is long past no longer counts";
}

TEST(RoundPatience, OneSlowStepInAHundredDoesNotCount) {
  Steps steps({.longest = 600s});
  steps.take(4s, 199);
  steps.take(50s);
  EXPECT_EQ(steps.waits(), 40s);
}

TEST(RoundPatience, ThatIsToldToBeShortIsShort) {
  Steps steps({.longest = 2s});
  steps.take(1s, 100);
  EXPECT_EQ(steps.waits(), 2s);
}

}  // namespace
}  // namespace kith::engine
