#include "kith/engine/bucketing.h"

#include <gtest/gtest.h>

#include "kith/base/error.h"

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

// Where the elements of segment i lie, by bucket: (from, count), in order.
std::vector<std::pair<std::size_t, std::size_t>> pieces_of(const std::vector<BucketPlan>& plans,
                                                           std::size_t segment) {
  std::vector<std::pair<std::size_t, std::size_t>> pieces;
  for (const BucketPlan& plan : plans) {
    for (const Placed& placed : plan.segments) {
      if (placed.segment == segment) pieces.emplace_back(placed.from, placed.count);
    }
  }
  return pieces;
}

TEST(Bucketing, EvenBucketsSplitWhatReachesFarIntoTheNext) {
  // 4000 bytes in all; d and c are as they were, b and a are split.
  const std::vector<Segment> table{segment("a", 304), segment("b", 592), segment("c", 96), segment("d", 0)};
  const auto plans = cut_evenly(table, 1000);
  ASSERT_EQ(plans.size(), 4u);
  for (const BucketPlan& plan : plans)
    EXPECT_NEAR(static_cast<double>(plan.count * 4), 1000, 128) << "a bucket";
  EXPECT_EQ(pieces_of(plans, 3).size(), 1u) << "an empty segment has a place";
  EXPECT_EQ(pieces_of(plans, 2).size(), 1u);
  EXPECT_FALSE(plans[0].segments.front().count < table[3].count);
  for (std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    std::size_t next = 0;
    for (const auto& [from, count] : pieces_of(plans, i)) {
      EXPECT_EQ(from, next);
      EXPECT_EQ(from % 16, 0u) << "64 bytes";
      next += count;
    }
    EXPECT_EQ(next, table[i].count);
    EXPECT_GT(pieces_of(plans, i).size(), 1u);
  }
  EXPECT_TRUE(plans[1].splits(table));
}

TEST(Bucketing, EvenBucketsLeaveSegmentsWholeThatNearlyFit) {
  const std::vector<Segment> table{segment("a", 240), segment("b", 256), segment("c", 272),
                                   segment("d", 256)};
  const auto plans = cut_evenly(table, 1024);
  ASSERT_EQ(plans.size(), 4u);
  for (const BucketPlan& plan : plans)
    EXPECT_FALSE(plan.splits(table));
}

TEST(Bucketing, EvenBucketsHaveOneTypeEach) {
  const std::vector<Segment> table{segment("a", 100), segment("b", 100, DType::f64), segment("c", 100)};
  const auto plans = cut_evenly(table, 400);
  for (const BucketPlan& plan : plans) {
    for (const Placed& placed : plan.segments)
      EXPECT_EQ(table[placed.segment].type, plan.type);
  }
  EXPECT_EQ(plans.size(), 4u);
}

TEST(Bucketing, ACutIsTakenOverAsItIs) {
  const std::vector<Segment> table{segment("a", 304), segment("b", 592), segment("c", 96, DType::f64),
                                   segment("d", 0)};
  for (const std::vector<BucketPlan>& plans : {cut_evenly(table, 1000), cut_buckets(table, 1000)}) {
    const auto again = plans_of(cut_of(plans), table);
    ASSERT_EQ(again.size(), plans.size());
    for (std::size_t b = 0; b < plans.size(); ++b)
      EXPECT_EQ(digest(again[b], table), digest(plans[b], table));
    EXPECT_EQ(cut_of(again), cut_of(plans));
  }
}

TEST(Bucketing, ACutOfAnotherModelIsRefused) {
  const std::vector<Segment> table{segment("a", 10), segment("b", 20, DType::f64)};
  for (const Cut& cut :
       {Cut{{{0, 10}}}, Cut{{{0, 10}}, {{1, 19}}}, Cut{{{0, 10}}, {{1, 21}}}, Cut{{{0, 10}, {1, 20}}},
        Cut{{{0, 10}}, {{1, 20}}, {{2, 1}}}, Cut{{{0, 10}}, {{1, 20}}, {}}}) {
    EXPECT_THROW(plans_of(cut, table), InputError);
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
