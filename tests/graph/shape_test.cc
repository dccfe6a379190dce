#include "kith/graph/shape.h"

#include <gtest/gtest.h>

#include "kith/base/check.h"
#include "kith/base/error.h"

namespace kith::graph {
namespace {

TEST(Shape, ParsesListsAndProducts) {
  const Shape shape = Shape::parse("4,4,2", "--nodes");
  EXPECT_EQ(shape.workers(), 10);
  EXPECT_EQ(shape.nodes(), 3);
  EXPECT_EQ(shape.text(), "4,4,2");
  EXPECT_EQ(Shape::parse("8x4", "--nodes"), Shape(std::vector<int>(8, 4)));
  EXPECT_EQ(Shape::parse("6", "--nodes"), Shape::single_node(6));
}

TEST(Shape, KnowsWhereARankIs) {
  const Shape shape({4, 1, 2});
  const int expected[] = {0, 0, 0, 0, 1, 2, 2};
  for (Rank rank = 0; rank < 7; ++rank)
    EXPECT_EQ(shape.node_of(rank), expected[rank]);
  EXPECT_TRUE(shape.same_node(5, 6));
  EXPECT_FALSE(shape.same_node(4, 5));
  EXPECT_EQ(shape.first_of(2), 5);
  EXPECT_EQ(shape.size_of(2), 2);
  EXPECT_THROW(shape.node_of(7), Bug);
  EXPECT_THROW(shape.node_of(-1), Bug);
}

TEST(Shape, BadTextNamesValuePlaceAndRemedy) {
  for (const char* bad :
       {"", "0", "4,,2", "4,0", "-1", "4x", "x4", "4x0", "a", "4 4", "2x2x2", "99999999999"}) {
    try {
      Shape::parse(bad, "--nodes");
      FAIL() << bad;
    } catch (const InputError& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.rfind("--nodes: ", 0), 0U) << text;
      EXPECT_NE(text.find(cat("'", bad, "'")), std::string::npos) << text;
      EXPECT_NE(text.find("for example 4,4,2"), std::string::npos) << text;
    }
  }
  EXPECT_THROW(Shape::parse("100000x100000", "--nodes"), InputError);
  EXPECT_THROW(Shape::single_node(0), InputError);
  EXPECT_THROW(Shape({}), InputError);
}

}  // namespace
}  // namespace kith::graph
