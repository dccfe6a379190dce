#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "kith/graph/spectrum.h"
#include "tests/graph/worlds.h"

namespace kith::graph {
namespace {

using NodeGroups = std::set<std::set<int>>;

// The groups of a step in terms of nodes. Every worker must be in a group of whole nodes.
NodeGroups node_groups(const Schedule& schedule, std::int64_t t) {
  const Shape& shape = schedule.shape();
  NodeGroups out;
  for (Rank rank = 0; rank < schedule.workers(); ++rank) {
    const WorkerRound round = schedule.round(rank, t);
    EXPECT_EQ(round.form, Form::group);
    std::set<int> nodes;
    for (Rank member : round.group)
      nodes.insert(shape.node_of(member));
    std::size_t workers = 0;
    for (int node : nodes)
      workers += static_cast<std::size_t>(shape.size_of(node));
    EXPECT_EQ(round.group.size(), workers) << "rank " << rank << " step " << t;
    out.insert(nodes);
  }
  return out;
}

void expect_table(const Shape& shape, const std::vector<NodeGroups>& table) {
  const auto schedule = make("aer", shape);
  ASSERT_EQ(schedule->period(), static_cast<std::int64_t>(table.size()));
  for (std::size_t t = 0; t < table.size(); ++t) {
    EXPECT_EQ(node_groups(*schedule, static_cast<std::int64_t>(t)), table[t])
        << shape.text() << " step " << t;
  }
}

// The published schedules (arXiv 2410.11998), as groups of nodes.
TEST(Aer, FourNodesAsPublished) {
  for (const char* shape : {"4x1", "4x2", "4x4", "4x8"}) {
    expect_table(Shape::parse(shape, "test"),
                 {{{0}, {1}, {2, 3}}, {{0, 1}, {2}, {3}}, {{0}, {2}, {1, 3}}, {{0, 2}, {1}, {3}}});
  }
}

TEST(Aer, EightNodesAsPublished) {
  for (const char* shape : {"8x1", "8x3", "8x8"}) {
    expect_table(Shape::parse(shape, "test"), {{{0}, {1}, {2, 3}, {4}, {5}, {6, 7}},
                                               {{0, 1}, {2}, {3}, {4, 5}, {6}, {7}},
                                               {{0}, {2}, {1, 3}, {4}, {6}, {5, 7}},
                                               {{0, 2}, {1}, {3}, {4, 6}, {5}, {7}},
                                               {{0}, {4}, {1, 5}, {2}, {6}, {3, 7}},
                                               {{0, 4}, {1}, {5}, {2, 6}, {3}, {7}}});
  }
}

TEST(Aer, TwoNodesFirstInsideThenAcross) {
  expect_table(Shape::parse("2x4", "test"), {{{0}, {1}}, {{0, 1}}});
}

// For every power of two: pairs (j, j xor 2^r) in ascending order of j, a counter over all pairs of all
// rounds.
TEST(Aer, FollowsThePublishedCounterForEveryPowerOfTwo) {
  for (int nodes = 2; nodes <= 64; nodes *= 2) {
    std::vector<NodeGroups> table;
    int counter = 0;
    for (int bit = 1; bit < nodes; bit *= 2) {
      NodeGroups steps[2];
      for (int j = 0; j < nodes; ++j) {
        if (j & bit) continue;
        const int joint = counter++ % 2 == 0 ? 1 : 0;
        steps[joint].insert({j, j ^ bit});
        steps[1 - joint].insert({j});
        steps[1 - joint].insert({j ^ bit});
      }
      table.insert(table.end(), {steps[0], steps[1]});
    }
    expect_table(Shape(std::vector<int>(static_cast<std::size_t>(nodes), 2)), table);
  }
}

TEST(Aer, ContractsAsPublished) {
  for (const char* shape : {"4x1", "4x4", "8x2"}) {
    const auto schedule = make("aer", Shape::parse(shape, "test"));
    const Spectrum spectrum = spectrum_of(*schedule);
    EXPECT_EQ(spectrum.exact_average_after, schedule->period());
    for (std::size_t start = 0; start < spectrum.contraction_by_start.size(); ++start) {
      EXPECT_NEAR(spectrum.contraction_by_start[start], start % 2 == 0 ? 0 : 0.5, 1e-12)
          << shape << " from " << start;
    }
  }
}

TEST(Aer, EqualNodesAverageExactlyWhateverTheirNumber) {
  for (int nodes = 2; nodes <= 20; ++nodes) {
    for (int each : {1, 2, 3}) {
      const auto schedule = make("aer", Shape(std::vector<int>(static_cast<std::size_t>(nodes), each)));
      EXPECT_TRUE(spectrum_of(*schedule).exact_average_after.has_value()) << describe(*schedule);
    }
  }
}

TEST(Aer, OneNodeIsTakenAsOneNodePerWorker) {
  for (int n : {1, 2, 6, 8, 13}) {
    const auto flat = make("aer", Shape::single_node(n));
    const auto nodes = make("aer", Shape(std::vector<int>(static_cast<std::size_t>(n), 1)));
    ASSERT_EQ(flat->period(), nodes->period());
    for (std::int64_t t = 0; t < flat->period(); ++t) {
      for (Rank rank = 0; rank < n; ++rank) {
        EXPECT_EQ(reads_of(flat->round(rank, t), rank), reads_of(nodes->round(rank, t), rank));
      }
    }
  }
}

TEST(Aer, UnequalNodesContract) {
  for (const char* shape : {"4,2,1", "8,8,7,8", "1,9,2,5,3,3", "1,16", "3,1,1,1,1,1,1"}) {
    const auto schedule = make("aer", Shape::parse(shape, "test"));
    EXPECT_LT(spectrum_of(*schedule).contraction, 0.75) << shape;
    for (std::int64_t t = 0; t < schedule->period(); ++t)
      EXPECT_FALSE(node_groups(*schedule, t).empty());
  }
}

}  // namespace
}  // namespace kith::graph
