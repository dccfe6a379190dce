#include "kith/telemetry/counters.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace kith::telemetry {
namespace {

TEST(Counters, CountEveryAddOfEveryThread) {
  Counters counters;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k)
        counters.at("adds").add(3);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(counters.at("adds").value(), 4 * 1000 * 3);
}

TEST(Counters, ReferencesStayValidWhileOthersAreAdded) {
  Counters counters;
  Counter& first = counters.at("first");
  for (int i = 0; i < 100; ++i)
    counters.at("other " + std::to_string(i));
  first.add(7);
  EXPECT_EQ(counters.at("first").value(), 7);
}

TEST(Counters, SampleHoldsAllAscendingByName) {
  Counters counters;
  counters.at("read").add(2);
  counters.at("late");
  const CounterSample sample = counters.sample("rounds", WorkerId{5}, Clock::Time(std::chrono::seconds(1)));
  EXPECT_EQ(sample.name, "rounds");
  EXPECT_EQ(sample.worker, WorkerId{5});
  const std::vector<std::pair<std::string, std::int64_t>> expected{{"late", 0}, {"read", 2}};
  EXPECT_EQ(sample.values, expected);
}

}  // namespace
}  // namespace kith::telemetry
