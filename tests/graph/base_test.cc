#include <gtest/gtest.h>

#include "kith/graph/base_graph.h"
#include "kith/graph/matrix.h"
#include "kith/graph/spectrum.h"
#include "tests/graph/worlds.h"

namespace kith::graph {
namespace {

std::unique_ptr<Schedule> base(int n, int degree) {
  ScheduleOptions options{.topology = "base", .shape = Shape::single_node(n)};
  options.degree = degree;
  return make_schedule(options);
}

TEST(Base, AveragesExactlyForEveryNumberOfWorkersAndDegree) {
  for (int degree = 1; degree <= 3; ++degree) {
    for (int n = 1; n <= 64; ++n) {
      const auto schedule = base(n, degree);
      Eigen::MatrixXd product = Eigen::MatrixXd::Identity(n, n);
      for (std::int64_t t = 0; t < schedule->period(); ++t)
        product = (mixing_matrix(*schedule, t) * product).eval();
      EXPECT_LE((product.array() - 1.0 / n).abs().maxCoeff(), 1e-13) << "n " << n << " degree " << degree;
    }
  }
}

TEST(Base, NobodyHasMorePeersThanTheDegree) {
  for (int degree = 1; degree <= 4; ++degree) {
    for (int n = 1; n <= 64; ++n) {
      const auto schedule = base(n, degree);
      for (std::int64_t t = 0; t < schedule->period(); ++t) {
        for (Rank rank = 0; rank < n; ++rank) {
          EXPECT_LE(reads_of(schedule->round(rank, t), rank).size(), static_cast<std::size_t>(degree))
              << "n " << n << " rank " << rank << " round " << t;
        }
      }
    }
  }
}

// By hand: 5 = 4 + 1 takes 2 + 1 + 2 rounds; 6 = 2 x 3 takes 3 + 1; 2 ln bound of the paper at 64.
TEST(Base, HasTheLengthsOfTheConstruction) {
  EXPECT_EQ(BaseGraph(1, 1).rounds(), 0);
  EXPECT_EQ(BaseGraph(2, 1).rounds(), 1);
  EXPECT_EQ(BaseGraph(3, 1).rounds(), 3);
  EXPECT_EQ(BaseGraph(5, 1).rounds(), 5);
  EXPECT_EQ(BaseGraph(6, 1).rounds(), 4);
  EXPECT_EQ(BaseGraph(64, 1).rounds(), 6);
  EXPECT_EQ(BaseGraph(9, 2).rounds(), 2);
  EXPECT_EQ(BaseGraph(6, 2).rounds(), 2);
  EXPECT_EQ(BaseGraph(12, 3).rounds(), 2);
  EXPECT_EQ(BaseGraph(5, 4).rounds(), 1);
  EXPECT_EQ(BaseGraph(3, 7).rounds(), 1);
  for (int k = 1; k <= 4; ++k) {
    for (int n = 2; n <= 3000; ++n) {
      const double bound = 2 * std::log(n) / std::log(k + 1) + 2;  // theorem 1 of the paper
      ASSERT_LE(BaseGraph(n, k).rounds(), bound) << "n " << n << " k " << k;
    }
  }
}

TEST(Base, FiveWorkersByHand) {
  const auto schedule = base(5, 1);
  const WorkerRound late = schedule->round(4, 2), early = schedule->round(0, 2);
  ASSERT_EQ(late.form, Form::neighbours);
  ASSERT_EQ(late.reads.size(), 1U);
  EXPECT_EQ(late.reads[0].rank, 0);
  EXPECT_DOUBLE_EQ(late.reads[0].weight, 0.8);
  EXPECT_DOUBLE_EQ(early.reads[0].weight, 0.8);
  EXPECT_EQ(schedule->round(1, 2).group, std::vector<Rank>{1});
  EXPECT_EQ(schedule->round(0, 0).group, (std::vector<Rank>{0, 1}));
  EXPECT_EQ(schedule->round(0, 4).group, (std::vector<Rank>{0, 2}));
}

TEST(Base, ExpIsXorForPowersOfTwo) {
  for (int n : {2, 4, 8, 32}) {
    const auto schedule = make("exp", Shape::single_node(n));
    ASSERT_EQ(1 << schedule->period(), n);
    for (int r = 0; r < schedule->period(); ++r) {
      for (Rank rank = 0; rank < n; ++rank) {
        EXPECT_EQ(reads_of(schedule->round(rank, r), rank), std::vector<Rank>{rank ^ (1 << r)});
      }
    }
  }
}

TEST(Base, ExpAveragesExactlyForEveryNumberOfWorkers) {
  for (int n = 1; n <= 64; ++n) {
    EXPECT_TRUE(spectrum_of(*make("exp", Shape::single_node(n))).exact_average_after.has_value()) << n;
  }
}

}  // namespace
}  // namespace kith::graph
