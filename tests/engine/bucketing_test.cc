#include "kith/engine/bucketing.h"

#include <gtest/gtest.h>

namespace kith::engine {
namespace {

Segment segment(const std::string& name, std::size_t count, DType type = DType::f32) {
  return {name, nullptr, count, type, count};
}

TEST(Bucketing, CutsInReverseOrderAndClosesFullBuckets) {
  const std::vector<Segment> table{segment("a", 10), segment("b", 100), segment("c", 30), segment("d", 5)};
  const auto plans = cut_buckets(table, 128);
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(plans[0].segments.size(), 2u);  // d, c: 64 + 128 bytes
  EXPECT_EQ(plans[0].segments[0].segment, 3u);
  EXPECT_EQ(plans[0].segments[1].segment, 2u);
  EXPECT_EQ(plans[0].segments[1].first, 16u);
  EXPECT_EQ(plans[1].segments[0].segment, 1u);  // larger than a bucket: one of its own
  EXPECT_EQ(plans[2].segments[0].segment, 0u);
  EXPECT_EQ(plans[2].count, 16u);
}

TEST(Bucketing, OneElementTypePerBucket) {
  const std::vector<Segment> table{segment("a", 4), segment("b", 4, DType::f64), segment("c", 4, DType::bf16),
                                   segment("d", 4)};
  const auto plans = cut_buckets(table, 1 << 20);
  ASSERT_EQ(plans.size(), 3u);
  for (const BucketPlan& plan : plans) {
    for (const Placed& placed : plan.segments)
      EXPECT_EQ(table[placed.segment].type, plan.type);
  }
}

TEST(Bucketing, DigestTellsModelsApart) {
  const std::vector<Segment> a{segment("w", 8), segment("b", 8)};
  const std::vector<Segment> renamed{segment("w", 8), segment("c", 8)};
  std::vector<Segment> strided = a;
  strided[0].layout_digest = 77;
  const auto plan = cut_buckets(a, 1 << 20)[0];
  EXPECT_EQ(digest(plan, a), digest(cut_buckets(a, 1 << 20)[0], a));
  EXPECT_NE(digest(plan, a), digest(plan, renamed));
  EXPECT_NE(digest(plan, a), digest(plan, strided));
}

}  // namespace
}  // namespace kith::engine
