#include "kith/sim/network.h"

#include <gtest/gtest.h>

namespace kith::sim {
namespace {

const Network kNetwork{{1e-6, 20e9}, {10e-6, 2e9}, 5e9};

TEST(Network, GroupShapeCountsNodes) {
  const graph::Shape shape({4, 2, 1});
  const std::vector<Rank> all{0, 1, 2, 3, 4, 5, 6};
  EXPECT_EQ(group_shape(all, shape), (GroupShape{7, 3, 1, 4}));
  const std::vector<Rank> some{1, 3, 5};
  EXPECT_EQ(group_shape(some, shape), (GroupShape{3, 2, 1, 2}));
}

TEST(Network, AloneCostsNothing) {
  const Cost cost = group_cost(kNetwork, Collective::ring, {1, 1, 1, 1}, 1e6);
  EXPECT_EQ(cost.seconds, 0);
  EXPECT_EQ(cost.nic_bytes, 0);
}

TEST(Network, APairExchangesOneModel) {
  EXPECT_DOUBLE_EQ(group_cost(kNetwork, Collective::ring, {2, 1, 2, 2}, 20e6).seconds, 1e-6 + 1e-3);
  const Cost cross = group_cost(kNetwork, Collective::ring, {2, 2, 1, 1}, 20e6);
  EXPECT_DOUBLE_EQ(cross.seconds, 10e-6 + 10e-3);
  EXPECT_DOUBLE_EQ(cross.nic_bytes, 20e6);
  EXPECT_DOUBLE_EQ(cross.nic_seconds, 4e-3);
}

TEST(Network, ThreeHopMovesExactlyOneModelBetweenTwoNodes) {
  const Cost ring = group_cost(kNetwork, Collective::ring, {8, 2, 4, 4}, 40e6);
  const Cost hop = group_cost(kNetwork, Collective::three_hop, {8, 2, 4, 4}, 40e6);
  EXPECT_DOUBLE_EQ(ring.nic_bytes, 2 * 40e6 * 7 / 8);
  EXPECT_DOUBLE_EQ(hop.nic_bytes, 40e6);
  // Four shards at 2 GB/s each are more than the NIC's 5 GB/s.
  EXPECT_NEAR(hop.seconds, 2 * 10e-6 + 6 * 1e-6 + 1.5 * 40e6 / 20e9 + 40e6 / 5e9, 1e-12);
}

TEST(Network, ATreeHidesTheHopsInside) {
  const Cost tree = group_cost(kNetwork, Collective::tree, {8, 2, 4, 4}, 40e6);
  EXPECT_NEAR(tree.seconds, 2 * 10e-6 + 6 * 1e-6 + 40e6 / 2e9, 1e-12);
  EXPECT_DOUBLE_EQ(tree.nic_bytes, 40e6);
}

}  // namespace
}  // namespace kith::sim
