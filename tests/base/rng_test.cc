#include "kith/base/rng.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace kith {
namespace {

// Fixed for ever: schedules, shards and checkpoints depend on these numbers.
TEST(Rng, SequenceIsPinned) {
  Rng rng(42);
  EXPECT_EQ(rng.next(), 13679457532755275413ULL);
  EXPECT_EQ(hash_words(1, 2, 3), hash_words(1, 2, 3));
  EXPECT_NE(hash_words(1, 2, 3), hash_words(1, 3, 2));
}

TEST(Rng, BelowCoversItsRangeEvenly) {
  Rng rng(7);
  std::array<int, 10> seen{};
  for (int i = 0; i < 100000; ++i)
    ++seen[rng.below(10)];
  for (int count : seen)
    EXPECT_NEAR(count, 10000, 500);
}

TEST(Rng, NormalHasUnitVariance) {
  Rng rng(7);
  double sum = 0, squares = 0;
  const int n = 100000;
  for (int i = 0; i < n; ++i) {
    const double x = rng.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 1, 0.02);
}

}  // namespace
}  // namespace kith
