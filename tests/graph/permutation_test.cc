#include "kith/graph/permutation.h"

#include <vector>

#include <gtest/gtest.h>

namespace kith::graph {
namespace {

TEST(Permutation, IsABijectionThatInverts) {
  for (int n : {1, 2, 3, 5, 16, 17, 64, 100, 1000}) {
    const Permutation order(n, 11);
    std::vector<bool> hit(static_cast<std::size_t>(n), false);
    for (int i = 0; i < n; ++i) {
      const int value = order.at(i);
      ASSERT_GE(value, 0);
      ASSERT_LT(value, n);
      EXPECT_FALSE(hit[static_cast<std::size_t>(value)]) << "n " << n << " twice " << value;
      hit[static_cast<std::size_t>(value)] = true;
      EXPECT_EQ(order.index_of(value), i);
    }
  }
}

TEST(Permutation, SpreadsEvenlyOverSeeds) {
  const int n = 10, seeds = 20000;
  std::vector<int> landed(n, 0);
  for (int seed = 0; seed < seeds; ++seed)
    ++landed[static_cast<std::size_t>(Permutation(n, seed).at(3))];
  for (int count : landed)
    EXPECT_NEAR(count, seeds / n, 250);
}

}  // namespace
}  // namespace kith::graph
