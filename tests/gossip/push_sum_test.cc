// Push-sum after a loss: Note [Mass after a loss].
#include "tests/support/push_sum.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/gossip/gossip_support.h"

namespace kith::gossip {
namespace {

constexpr int kWorkers = 5;
constexpr Rank kDying = 2;
constexpr int kRounds = 120;

// Worker 2 dies before round `death`. `together`: everybody has published that round's version by then, and
// knows of the loss before going on.
std::vector<std::vector<double>> weights_over_a_loss(const std::string& backend,
                                                     const graph::Schedule& schedule, int death,
                                                     bool together) {
  const auto reports = support::run_world(backend, kWorkers, [&](support::Worker& worker) {
    MixerOptions options;
    options.count = 8;
    options.wire = DType::f64;
    Bench<double> bench(worker, schedule, options);
    bench->start();
    std::vector<double> weights;
    for (int t = 0; t < kRounds; ++t) {
      if (t == death) {
        if (together) worker.store.set(cat("published/", worker.rank), "");
        for (int rank = 0; together && rank < kWorkers; ++rank)
          EXPECT_TRUE(worker.store.wait(cat("published/", rank), support::in_time()));
        if (worker.rank == kDying) support::die(worker);
        if (together) support::await_loss(worker, WorkerId{kDying});
      }
      const RoundReport report = bench->round(support::in_time());
      EXPECT_TRUE(report.late.empty());
      weights.push_back(bench->weight());
    }
    return bytes_of<double>(weights);
  });
  std::vector<std::vector<double>> weights;
  for (const std::string& report : reports)
    weights.push_back(values_of<double>(report));
  return weights;
}

class PushSumLoss : public testing::TestWithParam<std::string> {};

TEST_P(PushSumLoss, MassOfTheSurvivorsAndOfTheDeadStaysWhole) {
  const auto schedule = schedule_for(GetParam(), graph::Shape::single_node(kWorkers));
  for (const int death : {0, 1, 2, 3, 4, 5, 11}) {
    SCOPED_TRACE(cat("death before round ", death));
    const auto weights = weights_over_a_loss("inproc", *schedule, death, true);
    support::expect_whole(weights, {*schedule, kDying}, kDying, death + 1);
  }
}

// A worker that does not know of the loss yet sends to the dead twice at most: then its slots are full.
TEST_P(PushSumLoss, ProcessesKeepTheirMassOnceTheLossIsKnown) {
  const auto schedule = schedule_for(GetParam(), graph::Shape::single_node(kWorkers));
  const auto weights = weights_over_a_loss("shm", *schedule, 3, false);
  const auto mass = [&](int round) {
    double sum = 0;
    for (const std::vector<double>& mine : weights)
      sum += mine.empty() ? 0 : mine.at(static_cast<std::size_t>(round));
    return sum;
  };
  EXPECT_GT(mass(kRounds / 2), 1);
  for (int t = kRounds / 2; t < kRounds; ++t)
    ASSERT_NEAR(mass(t), mass(kRounds / 2), 1e-9) << "round " << t;
}

INSTANTIATE_TEST_SUITE_P(Gossip, PushSumLoss, testing::Values("exp-directed", "random-directed"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// By turns: rank 0 gives everybody a share and the others keep theirs, so that weights differ; then all meet.
class PushThenMeet final : public graph::Schedule {
 public:
  explicit PushThenMeet(int workers) : Schedule("push-then-meet", graph::Shape::single_node(workers)) {}
  std::int64_t period() const override { return 2; }
  bool directed() const override { return true; }
  graph::WorkerRound round(Rank rank, std::int64_t t) const override {
    const double share = 1.0 / workers();
    graph::WorkerRound round;
    for (Rank other = 0; other < workers(); ++other) {
      if (t % 2 == 1) {
        round.group.push_back(other);
      } else if (rank == 0 && other != 0) {
        round.readers.push_back(other);
        round.shares.push_back(share);
      }
    }
    if (t % 2 == 1) return round;
    round.form = graph::Form::neighbours;
    round.self_weight = rank == 0 ? share : 1;
    if (rank != 0) round.reads = {{0, share}};
    return round;
  }
};

// A group of a directed schedule averages weights as it averages models, also over machines.
TEST(PushSumGroups, OverMachinesAverageTheWeightsToo) {
  for (const std::vector<int>& machines :
       {std::vector{0, 0, 0, 0}, {0, 0, 1, 1}, {0, 1, 1, 1}, {0, 0, 1, 2}, {0, 1, 2, 3}}) {
    SCOPED_TRACE(testing::PrintToString(machines));
    const auto workers = static_cast<int>(machines.size());
    const PushThenMeet schedule(workers);
    constexpr int kCount = 20;  // not enough for a shard each
    const auto reports = support::run_threads(
        workers,
        [&](support::Worker& worker) {
          MixerOptions options;
          options.count = kCount;
          options.wire = DType::f64;
          Bench<double> bench(worker, schedule, options);
          bench->start();
          std::vector<double> all;
          for (int t = 0; t < 2; ++t) {
            bench->round(support::in_time());
            all.push_back(bench->weight());
          }
          all.insert(all.end(), bench->values().begin(), bench->values().end());
          return bytes_of<double>(all);
        },
        machines);
    const Eigen::RowVectorXd mean = first_vectors(workers, kCount).colwise().mean();
    for (int rank = 0; rank < workers; ++rank) {
      const auto got = values_of<double>(reports[static_cast<std::size_t>(rank)]);
      EXPECT_DOUBLE_EQ(got[0], rank == 0 ? 0.25 : 1.25);
      EXPECT_DOUBLE_EQ(got[1], 1) << "rank " << rank;
      for (int k = 0; k < kCount; ++k)
        EXPECT_NEAR(got[static_cast<std::size_t>(k + 2)], mean(k), 1e-14);
    }
  }
}

}  // namespace
}  // namespace kith::gossip
