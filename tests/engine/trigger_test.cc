#include "kith/optim/trigger.h"

#include <gtest/gtest.h>

#include "kith/base/error.h"

namespace kith::optim {
namespace {

std::vector<std::int64_t> firings(const std::string& text, std::int64_t steps) {
  const auto trigger = make_trigger(text);
  std::vector<std::int64_t> all;
  for (std::int64_t t = 0; t < steps; ++t) {
    EXPECT_EQ(trigger->fired(t), static_cast<std::int64_t>(all.size())) << text << ", step " << t;
    if (trigger->fires(t)) all.push_back(t);
  }
  return all;
}

using Steps = std::vector<std::int64_t>;

TEST(Trigger, FiresWhereItsTextSays) {
  EXPECT_EQ(firings("every 1", 4), (Steps{0, 1, 2, 3}));
  EXPECT_EQ(firings("every 4", 12), (Steps{3, 7, 11}));
  EXPECT_EQ(firings("at 0, 3,10", 20), (Steps{0, 3, 10}));
  EXPECT_EQ(firings("from 0 every 2, from 5 every 3", 12), (Steps{1, 3, 7, 10}));
  EXPECT_EQ(firings("from 3 every 1, from 5 never, from 8 every 1", 10), (Steps{3, 4, 8, 9}));
}

TEST(Trigger, RefusesWhatItCannotRead) {
  for (const char* text :
       {"", "4", "every", "every 0", "every 4 steps", "at", "at 3,3", "at -1", "at 1,", "from 3",
        "from 0 every 1, every 2", "from 5 every 1, from 5 every 2", "every 99999999999999999999"})
    EXPECT_THROW(make_trigger(text), InputError) << text;
}

TEST(MeasuredTrigger, ReadsItsTextsAndComputesIntervals) {
  EXPECT_FALSE(measured_trigger("every 4"));
  EXPECT_FALSE(measured_trigger("at 0, 3"));
  const auto by_clock = measured_trigger("every 1.5 s");
  ASSERT_TRUE(by_clock);
  EXPECT_EQ(by_clock->interval(1, 0.1, 0), 15);
  EXPECT_EQ(by_clock->interval(15, 10, 0), 1) << "never less than a step";
  const auto by_distance = measured_trigger("distance 0.5 cap 32");
  ASSERT_TRUE(by_distance);
  EXPECT_EQ(by_distance->interval(10, 0, 1), 5);
  EXPECT_EQ(by_distance->interval(10, 0, 0.1), 20) << "at most doubled";
  EXPECT_EQ(by_distance->interval(30, 0, 0.1), 32) << "the cap";
  EXPECT_EQ(by_distance->interval(8, 0, 0), 16) << "nothing found: as late as can be";
  for (const char* text : {"every 0 s", "every -1 s", "every s", "distance 0 cap 2", "distance 1",
                           "distance 1 cap 0", "every 4 steps"})
    EXPECT_THROW(measured_trigger(text), InputError) << text;
}

}  // namespace
}  // namespace kith::optim
