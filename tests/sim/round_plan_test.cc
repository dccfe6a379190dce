#include "kith/sim/round_plan.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "kith/sim/block.h"
#include "tests/sim/scenarios.h"

namespace kith::sim {
namespace {

struct Planned {
  Scenario scenario;
  RoundPlan plan;
};

Planned planned(const char* topology, const graph::Shape& shape, std::int64_t t) {
  Planned p{plain_scenario({.shape = shape}), {}};
  p.scenario.schedule = schedule_of(topology, shape);
  CostBook book(p.scenario);
  p.plan = plan_round(*p.scenario.schedule, t, shape, book);
  return p;
}

// Every block is advanced exactly once a round, whatever the schedule: otherwise a worker would skip an
// iteration.
TEST(RoundPlan, EveryBlockComesOnce) {
  for (const std::string& topology : graph::schedule_names()) {
    if (topology == "file") continue;
    for (const graph::Shape& shape :
         {graph::Shape::single_node(1), graph::Shape({4, 2, 1}), graph::Shape(std::vector<int>(4, 8)),
          graph::Shape(std::vector<int>(5, 3))}) {
      const auto schedule = schedule_of(topology, shape);
      for (std::int64_t t = 0; t < std::min<std::int64_t>(schedule->period(), 4); ++t) {
        std::vector<std::size_t> blocks = planned(topology.c_str(), shape, t).plan.blocks;
        std::sort(blocks.begin(), blocks.end());
        ASSERT_EQ(blocks.size(), (static_cast<std::size_t>(shape.workers()) + kLanes - 1) / kLanes)
            << topology;
        for (std::size_t i = 0; i < blocks.size(); ++i)
          EXPECT_EQ(blocks[i], i) << topology << " " << shape.text();
      }
    }
  }
}

// The first round of `aer` on four nodes is {0}{1}{2,3}: three groups that share nothing.
TEST(RoundPlan, AerGroupsAreIndependent) {
  const RoundPlan plan = planned("aer", graph::Shape(std::vector<int>(4, 4)), 0).plan;
  ASSERT_EQ(plan.groups.size(), 3U);
  EXPECT_EQ(plan.components.size(), 3U);
  EXPECT_EQ(std::count_if(plan.groups.begin(), plan.groups.end(),
                          [](const GroupOp& op) { return op.first_node != op.end_node; }),
            1);
  for (const Component& component : plan.components)
    EXPECT_FALSE(component.contended);
}

// In `exp`'s crossing rounds the four pairs of two nodes meet at the same NICs; two such node pairs do not.
TEST(RoundPlan, PairsThatShareANicAreSeenTogether) {
  const RoundPlan plan = planned("exp", graph::Shape(std::vector<int>(4, 4)), 2).plan;
  EXPECT_EQ(plan.groups.size(), 8U);
  ASSERT_EQ(plan.components.size(), 2U);
  EXPECT_TRUE(plan.components[0].contended);
  EXPECT_EQ(plan.components[0].end_group - plan.components[0].first_group, 4U);
}

}  // namespace
}  // namespace kith::sim
