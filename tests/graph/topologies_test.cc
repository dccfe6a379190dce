// What holds for every built-in topology on every shape.
#include <algorithm>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/graph/connectivity.h"
#include "kith/graph/matrix.h"
#include "tests/graph/digest.h"
#include "tests/graph/worlds.h"

namespace kith::graph {
namespace {

class EveryTopology : public testing::TestWithParam<std::string> {
 protected:
  template <class Check>
  void on_all_shapes(Check check) const {
    for (const Shape& shape : all_shapes()) {
      const auto schedule = make(GetParam(), shape);
      SCOPED_TRACE(describe(*schedule));
      ASSERT_GE(schedule->period(), 1);
      ASSERT_EQ(schedule->workers(), shape.workers());
      check(*schedule);
    }
  }
};

TEST_P(EveryTopology, IsStochasticAndKeepsTheMean) {
  on_all_shapes([](const Schedule& schedule) {
    const Stochasticity found = stochasticity_of(schedule);
    EXPECT_LE(found.column_error, 1e-12);
    EXPECT_GE(found.least_entry, 0);
    if (!schedule.directed()) {
      EXPECT_LE(found.row_error, 1e-12);
      EXPECT_LE(found.asymmetry, 1e-15);
    }
    Eigen::VectorXd models = Eigen::VectorXd::LinSpaced(schedule.workers(), -1, 3).array().exp();
    const double mean = models.mean();
    for (std::int64_t t = 0; t < schedule.period(); ++t) {
      models = (mixing_matrix(schedule, t) * models).eval();
      EXPECT_NEAR(models.mean(), mean, 1e-12) << "round " << t;
    }
  });
}

TEST_P(EveryTopology, ConnectsEverybodyOverAPeriod) {
  on_all_shapes([](const Schedule& schedule) { EXPECT_EQ(cut_off(schedule), std::vector<Rank>{}); });
}

TEST_P(EveryTopology, IsAPureFunctionWithItsPeriod) {
  on_all_shapes([](const Schedule& schedule) {
    for (Rank rank : {0, schedule.workers() / 2, schedule.workers() - 1}) {
      for (std::int64_t t : {std::int64_t{0}, schedule.period() / 2, schedule.period() - 1}) {
        const WorkerRound now = schedule.round(rank, t);
        for (std::int64_t later : {t, t + schedule.period(), t + 1000 * schedule.period()}) {
          const WorkerRound again = schedule.round(rank, later);
          EXPECT_EQ(now.form, again.form);
          EXPECT_EQ(now.group, again.group);
          EXPECT_EQ(now.self_weight, again.self_weight);
          EXPECT_EQ(reads_of(now, rank), reads_of(again, rank));
          EXPECT_EQ(now.readers, again.readers);
        }
      }
    }
  });
}

// Readers and reads are the same edges seen from both ends, sorted, without oneself; groups agree among
// members.
TEST_P(EveryTopology, BothEndsOfAnEdgeKnowOfIt) {
  on_all_shapes([](const Schedule& schedule) {
    for (std::int64_t t = 0; t < schedule.period(); ++t) {
      std::vector<WorkerRound> rounds;
      for (Rank rank = 0; rank < schedule.workers(); ++rank)
        rounds.push_back(schedule.round(rank, t));
      const auto at = [&](Rank rank) -> const WorkerRound& { return rounds[static_cast<std::size_t>(rank)]; };
      for (Rank rank = 0; rank < schedule.workers(); ++rank) {
        const std::vector<Rank> reads = reads_of(at(rank), rank), readers = readers_of(at(rank), rank);
        ASSERT_TRUE(std::is_sorted(reads.begin(), reads.end()));
        ASSERT_TRUE(std::is_sorted(readers.begin(), readers.end()));
        ASSERT_EQ(std::count(reads.begin(), reads.end(), rank), 0);
        if (!schedule.directed()) {
          ASSERT_EQ(reads, readers) << "rank " << rank << " round " << t;
        }
        for (Rank other : reads) {
          const std::vector<Rank> theirs = readers_of(at(other), other);
          ASSERT_TRUE(std::binary_search(theirs.begin(), theirs.end(), rank)) << rank << " reads " << other;
        }
        for (Rank other : readers) {
          const std::vector<Rank> theirs = reads_of(at(other), other);
          ASSERT_TRUE(std::binary_search(theirs.begin(), theirs.end(), rank)) << other << " reads " << rank;
        }
        for (const Term& share : schedule.directed() ? shares_of(at(rank), rank) : std::vector<Term>()) {
          const std::vector<Term> row = row_of(at(share.rank), share.rank);
          const auto taken = std::ranges::find(row, rank, &Term::rank);
          ASSERT_NE(taken, row.end());
          ASSERT_EQ(share.weight, taken->weight) << share.rank << " reads " << rank;
        }
        if (at(rank).form != Form::group) continue;
        for (Rank member : at(rank).group)
          ASSERT_EQ(at(member).group, at(rank).group) << rank << ", " << member;
      }
    }
  });
}

TEST_P(EveryTopology, LeavesNobodyOutOfAPeriod) {
  on_all_shapes([](const Schedule& schedule) {
    if (schedule.workers() == 1) return;
    for (Rank rank = 0; rank < schedule.workers(); ++rank) {
      bool took_part = false;
      for (std::int64_t t = 0; t < schedule.period(); ++t) {
        took_part = took_part || !readers_of(schedule.round(rank, t), rank).empty();
      }
      EXPECT_TRUE(took_part) << "rank " << rank;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Graph, EveryTopology, testing::ValuesIn(built_in_names()), [](const auto& topology) {
  std::string name = topology.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Topologies, AnUnknownNameGetsASuggestion) {
  try {
    make("rign-static", Shape::single_node(4));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'ring-static'"), std::string::npos)
        << error.what();
  }
}

TEST(Topologies, OptionsOutOfRangeAreNamed) {
  const auto message = [](const ScheduleOptions& options) -> std::string {
    try {
      make_schedule(options);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  ScheduleOptions options{.topology = "base", .shape = Shape::single_node(4)};
  options.degree = 0;
  EXPECT_EQ(message(options), "base: degree 0 (at least 1)");
  options.topology = "random-directed";
  EXPECT_EQ(message(options), "random-directed: degree 0 (at least 1)");
  options.topology = "sun";
  options.centres = 5;
  EXPECT_EQ(message(options), "sun: 5 centres (from 1 to the 4 workers)");
  options.topology = "erdos-renyi";
  options.edge_probability = 1.5;
  EXPECT_NE(message(options).find("edge probability 1.5"), std::string::npos);
}

// Static graphs of known structure, by hand.
TEST(Topologies, StaticGraphsHaveTheirNeighbours) {
  const auto neighbours = [](const char* name, int n, Rank rank) {
    return reads_of(make(name, Shape::single_node(n))->round(rank, 0), rank);
  };
  using Ranks = std::vector<Rank>;
  EXPECT_EQ(neighbours("ring-static", 5, 0), (Ranks{1, 4}));
  EXPECT_EQ(neighbours("ring-static", 2, 0), (Ranks{1}));
  EXPECT_EQ(neighbours("exp-static", 8, 0), (Ranks{1, 2, 4, 6, 7}));
  EXPECT_EQ(neighbours("hypercube", 8, 5), (Ranks{1, 4, 7}));
  EXPECT_EQ(neighbours("hypercube", 6, 5), (Ranks{1, 4}));
  EXPECT_EQ(neighbours("torus", 12, 0), (Ranks{1, 3, 4, 8}));
  EXPECT_EQ(neighbours("torus", 7, 0), (Ranks{1, 6}));
  EXPECT_EQ(neighbours("star", 4, 0), (Ranks{1, 2, 3}));
  EXPECT_EQ(neighbours("star", 4, 3), (Ranks{0}));
}

TEST(Topologies, RingPairsAlternateAndOddRingsRotateTheIdleWorker) {
  const auto ring = make("ring", Shape::single_node(6));
  EXPECT_EQ(ring->round(0, 0).group, (std::vector<Rank>{0, 1}));
  EXPECT_EQ(ring->round(0, 1).group, (std::vector<Rank>{0, 5}));
  const auto odd = make("ring", Shape::single_node(5));
  EXPECT_EQ(odd->period(), 5);
  for (std::int64_t t = 0; t < 5; ++t) {
    for (Rank rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(odd->round(rank, t).group.size() == 1, rank == (t + 4) % 5) << rank << " round " << t;
    }
  }
}

TEST(Topologies, DegreeOptionsAreKept) {
  ScheduleOptions options{.topology = "random-directed", .shape = Shape::single_node(20)};
  options.degree = 3;
  const auto schedule = make_schedule(options);
  for (std::int64_t t = 1; t < schedule->period(); ++t) {
    for (Rank rank = 0; rank < 20; ++rank)
      EXPECT_EQ(schedule->round(rank, t).readers.size(), 3U);
  }
  const Stochasticity found = stochasticity_of(*schedule);
  EXPECT_TRUE(found.column_stochastic());
  EXPECT_FALSE(found.doubly_stochastic());
}

TEST(Topologies, StochasticityFromRowsAgreesWithTheWholeMatrices) {
  for (const char* name : {"base", "random-directed", "erdos-renyi"}) {
    const auto schedule = make(name, Shape::single_node(13));
    Stochasticity worst;
    for (std::int64_t t = 0; t < schedule->period(); ++t) {
      const Stochasticity one = stochasticity_of(mixing_matrix(*schedule, t));
      worst.row_error = std::max(worst.row_error, one.row_error);
      worst.column_error = std::max(worst.column_error, one.column_error);
      worst.asymmetry = std::max(worst.asymmetry, one.asymmetry);
    }
    const Stochasticity found = stochasticity_of(*schedule);
    EXPECT_NEAR(found.row_error, worst.row_error, 1e-15) << name;
    EXPECT_NEAR(found.column_error, worst.column_error, 1e-15) << name;
    EXPECT_NEAR(found.asymmetry, worst.asymmetry, 1e-15) << name;
  }
}

// No thread or call order changes a round: construction arguments alone decide.
TEST(Topologies, TwoSchedulesOfTheSameOptionsAreEqual) {
  for (const std::string& name : built_in_names()) {
    const Shape shape = Shape::parse("4,2,1", "test");
    EXPECT_EQ(digest_of(*make(name, shape)), digest_of(*make(name, shape))) << name;
  }
}

}  // namespace
}  // namespace kith::graph
