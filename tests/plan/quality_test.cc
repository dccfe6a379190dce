#include "kith/plan/quality.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

namespace kith::plan {
namespace {

Quality quality(const char* topology, const graph::Shape& shape, int every = 1) {
  return quality_of(*graph::make_schedule({.topology = topology, .shape = shape}), every, 3);
}

TEST(Quality, ExactSchedulesCountTheirRounds) {
  EXPECT_NEAR(quality("complete", graph::Shape::single_node(12)).contraction, 1e-6, 1e-12);
  EXPECT_NEAR(quality("exp", graph::Shape::single_node(16)).contraction, std::pow(1e-6, 1.0 / 4), 1e-9);
  EXPECT_NEAR(quality("exp", graph::Shape::single_node(16), 4).contraction, std::pow(1e-6, 1.0 / 16), 1e-9);
}

TEST(Quality, AWorldOfOneAgrees) {
  EXPECT_EQ(quality("exp", graph::Shape::single_node(1)).contraction, 0);
}

// Each of the ring's two rounds is a projection; the angle between them, 2 pi / n for the slowest mode, gives
// cos^2 for the two together.
TEST(Quality, TheRingContractsAsItsSpectrumSays) {
  EXPECT_NEAR(quality("ring", graph::Shape::single_node(32)).contraction, std::cos(2 * std::numbers::pi / 32),
              0.004);
}

TEST(Quality, DirectedSchedulesReachTheMean) {
  const double contraction = quality("exp-directed", graph::Shape::single_node(8)).contraction;
  EXPECT_GT(contraction, 0);
  EXPECT_LT(contraction, 0.95);
}

TEST(Quality, AllReduceIsExactAndFresh) {
  const Quality q = quality_of(sim::Scenario{});
  EXPECT_EQ(q.contraction, 0);
  EXPECT_EQ(q.staleness, 0);
}

}  // namespace
}  // namespace kith::plan
