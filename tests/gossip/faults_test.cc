#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "tests/gossip/gossip_support.h"

namespace kith::gossip {
namespace {

bool reads_from(const graph::Schedule& schedule, Rank reader, Rank peer) {
  for (std::int64_t t = 0; t < schedule.period(); ++t) {
    const std::vector<Rank> reads = graph::reads_of(schedule.round(reader, t), reader);
    if (std::find(reads.begin(), reads.end(), peer) != reads.end()) return true;
  }
  return false;
}

class Faults : public testing::TestWithParam<std::string> {};

// Worker 2 dies after three rounds. The survivors finish all rounds; its weight goes to themselves, so that
// on a complete graph every later round keeps the survivors' mean and they agree in the end.
TEST_P(Faults, SurvivorsFinishEveryRound) {
  const int workers = 4;
  for (const char* topology : {"complete", "ring-static", "exp"}) {
    const auto schedule = schedule_for(topology, graph::Shape::single_node(workers));
    const auto reports = support::run_world(GetParam(), workers, [&](support::Worker& worker) {
      MixerOptions options;
      options.count = 1000;
      Bench<float> bench(worker, *schedule, options);
      bench->start();
      int lost = 0;
      for (int t = 0; t < 60; ++t) {
        if (worker.rank == 2 && t == 3) support::die(worker);
        const RoundReport report = bench->round(support::in_time());
        EXPECT_TRUE(report.late.empty());
        lost += static_cast<int>(report.lost.size());
        if (!report.lost.empty()) {
          EXPECT_EQ(report.lost, std::vector<WorkerId>{WorkerId{2}});
          EXPECT_GT(report.missing_weight, 0);
        }
      }
      EXPECT_EQ(lost > 0, reads_from(*schedule, worker.rank, 2));
      EXPECT_EQ(bench->next_round(), 60);
      return bytes_of<float>(bench->values());
    });
    // A convex combination of the first vectors stays in their range, and the survivors agree.
    const auto a = values_of<float>(reports[0]), b = values_of<float>(reports[1]),
               d = values_of<float>(reports[3]);
    for (std::size_t k = 0; k < a.size(); ++k) {
      ASSERT_LE(std::abs(a[k]), 1.0f) << topology;
      ASSERT_NEAR(a[k], b[k], 2e-3) << topology;
      ASSERT_NEAR(a[k], d[k], 2e-3) << topology;
    }
  }
}

// A shard's owner dies between the two hops of a group: the others sum its shard themselves.
TEST_P(Faults, GroupOverShardsSurvivesTheLossOfAMember) {
  const int workers = 5;
  const auto schedule = schedule_for("complete", graph::Shape::single_node(workers));
  const auto reports = support::run_world(GetParam(), workers, [&](support::Worker& worker) {
    MixerOptions options;
    options.count = 70'000;
    Bench<float> bench(worker, *schedule, options);
    bench->start();  // worker 4's first version is visible, its shard never will be
    if (worker.rank == 4) support::die(worker);
    for (int t = 0; t < 3; ++t)
      bench->round(support::in_time());
    return bytes_of<float>(bench->values());
  });
  const auto first = values_of<float>(reports[0]);
  ASSERT_EQ(first.size(), 70'000u);
  for (int rank = 1; rank < 4; ++rank) {
    const auto other = values_of<float>(reports[static_cast<std::size_t>(rank)]);
    for (std::size_t k = 0; k < first.size(); k += 11)
      ASSERT_NEAR(first[k], other[k], 0.5) << rank;
  }
}

// One neighbour oversleeps a deadline: one late round, then everything is as before.
TEST_P(Faults, LateOnceThenNormal) {
  const auto schedule = schedule_for("exp", graph::Shape::single_node(2));
  support::run_world(GetParam(), 2, [&](support::Worker& worker) {
    MixerOptions options;
    options.count = 64;
    Bench<float> bench(worker, *schedule, options);
    bench->start();
    int late = 0;
    for (int t = 0; t < 300; ++t) {
      if (worker.rank == 1 && t == 5) {
        EXPECT_TRUE(worker.store.wait("gave up", support::in_time()));
      }
      // Only round 6 of worker 0 has a short deadline: version 6 is what its neighbour holds back until
      // worker 0 has given it up. The round itself ends later: its own next version needs the neighbour.
      const bool hurried = worker.rank == 0 && t == 6;
      std::jthread watch;
      if (hurried) {
        watch = std::jthread([&](const std::stop_token& stop) {
          while (worker.transport.ledger().at(WorkerId{1}).late == 0 && !stop.stop_requested())
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          worker.store.set("gave up", "");
        });
      }
      const RoundReport report =
          bench->round(hurried ? support::in(std::chrono::milliseconds(50)) : support::in_time());
      if (hurried) {
        EXPECT_EQ(report.late, std::vector<WorkerId>{WorkerId{1}});
        EXPECT_DOUBLE_EQ(report.missing_weight, 0.5);
      }
      late += static_cast<int>(report.late.size());
      EXPECT_TRUE(report.lost.empty());
    }
    EXPECT_EQ(late, worker.rank == 0 ? 1 : 0);
    return std::string();
  });
}

INSTANTIATE_TEST_SUITE_P(Gossip, Faults, testing::Values("inproc", "shm"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace kith::gossip
