#include "kith/launch/views.h"

#include <mutex>

#include <gtest/gtest.h>

#include "tests/support/worlds.h"

namespace kith::launch {
namespace {

constexpr int kWorkers = 4;

struct Cut {
  int knows = 0;
  int gone = 0;
};

// Everybody but the dead agrees on the next view, where each knows only of those losses that `cuts` give it.
// By worker: the members it ends with; empty: it was left out.
std::vector<std::vector<WorkerId>> agree(const std::vector<int>& dead, const std::vector<Cut>& cuts) {
  std::vector<std::vector<WorkerId>> ends(kWorkers);
  std::mutex mutex;
  support::run_threads(kWorkers, [&](support::Worker& worker) {
    if (std::ranges::find(dead, worker.rank) != dead.end()) {
      worker.store.wait("done", support::in_time());  // its end would be seen by all
      return std::string();
    }
    const SteadyClock clock;
    NullLog log;
    ViewsOptions options;
    options.name = "test";
    options.patience = std::chrono::minutes(5);
    options.lost = [&](WorkerId other) {
      return std::ranges::any_of(
          cuts, [&](const Cut& cut) { return cut.knows == worker.rank && cut.gone == other.value; });
    };
    Views views(worker.store, worker.transport, Members::first(kWorkers), clock, log, options);
    if (std::ranges::any_of(cuts, [&](const Cut& cut) { return cut.knows == worker.rank; }))
      views.call("somebody is gone");
    try {
      const View view = views.agree({.progress = {5, 0}});
      const std::lock_guard lock(mutex);
      ends[static_cast<std::size_t>(worker.rank)] = view.members.workers;
    } catch (const LeftOut&) {
    }
    if (worker.store.add("ended", 1) == kWorkers - static_cast<int>(dead.size()))
      worker.store.set("done", "");
    worker.store.wait("done", support::in_time());
    return std::string();
  });
  return ends;
}

std::vector<WorkerId> ids(std::initializer_list<int> values) {
  std::vector<WorkerId> workers;
  for (const int value : values)
    workers.push_back(WorkerId{value});
  return workers;
}

// The patience is longer than the test may take.
TEST(Views, OneWhoSeesALossIsEnough) {
  const auto ends = agree({3}, {{2, 3}});
  for (int worker = 0; worker < 3; ++worker)
    EXPECT_EQ(ends[static_cast<std::size_t>(worker)], ids({0, 1, 2})) << worker;
}

TEST(Views, AlsoOfTheOneThatWouldHearTheOthersOut) {
  const auto ends = agree({0}, {{3, 0}});
  for (int worker = 1; worker < 4; ++worker)
    EXPECT_EQ(ends[static_cast<std::size_t>(worker)], ids({1, 2, 3})) << worker;
}

TEST(Views, OfTwoThatHaveLostEachOtherOneGoesOn) {
  const auto ends = agree({}, {{1, 2}, {2, 1}});
  const bool first_stays = !ends[1].empty();
  EXPECT_NE(first_stays, !ends[2].empty());
  EXPECT_EQ(ends[0], first_stays ? ids({0, 1, 3}) : ids({0, 2, 3}));
  EXPECT_EQ(ends[3], ends[0]);
}

}  // namespace
}  // namespace kith::launch
