#include "kith/graph/traffic.h"

#include <gtest/gtest.h>

#include "tests/graph/worlds.h"

namespace kith::graph {
namespace {

Traffic traffic(const char* topology, const char* shape) {
  return traffic_of(*make(topology, Shape::parse(shape, "test")));
}

TEST(Traffic, PairsMoveOneModelEach) {
  const Traffic flat = traffic("exp", "8");
  EXPECT_DOUBLE_EQ(flat.messages_per_worker, 1);
  EXPECT_DOUBLE_EQ(flat.models_per_worker, 1);
  EXPECT_DOUBLE_EQ(flat.busiest_worker_models, 1);
  EXPECT_DOUBLE_EQ(flat.cross_node_models, 0);
  // 16 workers on 4 nodes: two of the four rounds cross, with all 16 models each; a node sends four at once.
  const Traffic nodes = traffic("exp", "4x4");
  EXPECT_DOUBLE_EQ(nodes.cross_node_models, 8);
  EXPECT_DOUBLE_EQ(nodes.busiest_node_models, 4);
}

TEST(Traffic, AJointGroupOfTwoNodesSendsOneModelEachWay) {
  const Traffic nodes = traffic("aer", "4x4");
  EXPECT_DOUBLE_EQ(nodes.cross_node_models, 2);
  EXPECT_DOUBLE_EQ(nodes.busiest_node_models, 1);
  const Traffic unequal = traffic("aer", "7,3");
  EXPECT_DOUBLE_EQ(unequal.cross_node_models, 1);
}

TEST(Traffic, CompleteIsAnAllReduce) {
  const Traffic all = traffic("complete", "4x2");
  EXPECT_DOUBLE_EQ(all.messages_per_worker, 14);
  EXPECT_DOUBLE_EQ(all.models_per_worker, 2.0 * 7 / 8);
  EXPECT_DOUBLE_EQ(all.cross_node_models, 4 * 2.0 * 3 / 4);
}

TEST(Traffic, NeighboursCountEveryRead) {
  const Traffic ring = traffic("ring-static", "2,2,2");
  EXPECT_DOUBLE_EQ(ring.models_per_worker, 2);
  EXPECT_DOUBLE_EQ(ring.cross_node_models, 6);
  const Traffic star = traffic("star", "5");
  EXPECT_DOUBLE_EQ(star.busiest_worker_models, 4);
  EXPECT_DOUBLE_EQ(star.models_per_worker, 8.0 / 5);
}

}  // namespace
}  // namespace kith::graph
