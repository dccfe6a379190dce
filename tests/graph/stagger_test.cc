#include "kith/graph/stagger.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/graph/worlds.h"

namespace kith::graph {
namespace {

// Bytes that a worker reads in step t.
double read_in(const Schedule& schedule, Rank rank, std::int64_t t, const std::vector<double>& bytes,
               const std::vector<std::int64_t>& ahead) {
  double sum = 0;
  for (std::size_t b = 0; b < bytes.size(); ++b)
    sum += bytes[b] * static_cast<double>(reads_of(schedule.round(rank, t + ahead[b]), rank).size());
  return sum;
}

TEST(Stagger, EveryStepOfEveryWorkerReadsTheSame) {
  for (const char* shape : {"1,1,1,1", "1,1,1,1,1,1,1,1"}) {
    const auto schedule = make("aer", Shape::parse(shape, "test"));
    const std::vector<double> bytes(static_cast<std::size_t>(turns_of(*schedule)), 10.0);
    const auto ahead = stagger(turns_of(*schedule), bytes);
    const std::vector<std::int64_t> together(bytes.size(), 0);
    for (Rank rank = 0; rank < schedule->workers(); ++rank) {
      const double each = 10.0 * static_cast<double>(bytes.size()) / 2;
      double least = 1e9;
      for (std::int64_t t = 0; t < schedule->period(); ++t) {
        EXPECT_EQ(read_in(*schedule, rank, t, bytes, ahead), each) << shape << " " << rank << " " << t;
        least = std::min(least, read_in(*schedule, rank, t, bytes, together));
      }
      EXPECT_EQ(least, 0) << "together, a worker has steps without a message";
    }
  }
}

TEST(Stagger, UnequalBucketsAreSpreadByTheirBytes) {
  const std::vector<double> bytes{1, 9, 2, 8, 3, 7, 10};
  const auto ahead = stagger(4, bytes);
  std::vector<double> filled(4, 0.0);
  for (std::size_t b = 0; b < bytes.size(); ++b)
    filled[static_cast<std::size_t>(ahead[b])] += bytes[b];
  EXPECT_EQ(filled, (std::vector<double>{10, 10, 10, 10}));
}

TEST(Stagger, OneTurnOrOneBucketIsAtTheFirstRound) {
  EXPECT_EQ(stagger(1, std::vector<double>{3, 2, 1}), (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(stagger(6, std::vector<double>{3}), (std::vector<std::int64_t>{0}));
}

TEST(Stagger, LongSchedulesHaveEightTurns) {
  EXPECT_EQ(turns_of(*make("complete", Shape::parse("8", "test"))), 1);
  EXPECT_EQ(turns_of(*make("aer", Shape::parse("4x2", "test"))), 4);
  EXPECT_EQ(turns_of(*make("aer", Shape::parse("64x2", "test"))), 8);
}

TEST(Stagger, SchedulesThatCrossNodesAreTold) {
  EXPECT_TRUE(crosses_nodes(*make("aer", Shape::parse("4x1", "test"))));
  EXPECT_TRUE(crosses_nodes(*make("exp", Shape::parse("4x2", "test")))) << "not in its first round";
  EXPECT_TRUE(crosses_nodes(*make("complete", Shape::parse("4x2", "test"))));
  EXPECT_FALSE(crosses_nodes(*make("aer", Shape::parse("8", "test")))) << "one node";
  EXPECT_FALSE(crosses_nodes(*make("exp", Shape::parse("8", "test")))) << "one node";
}

TEST(Stagger, TheFullestTurnIsMeasuredByTheMean) {
  const std::vector<double> bytes{3, 1, 2};
  EXPECT_EQ(fullest_turn(2, bytes, stagger(2, bytes)), 1);
  EXPECT_EQ(fullest_turn(2, bytes, std::vector<std::int64_t>{0, 0, 0}), 2);
  EXPECT_EQ(fullest_turn(3, std::vector<double>{0, 0}, std::vector<std::int64_t>{0, 1}), 1);
}

TEST(Stagger, ModelsAreCutIntoTurnsUnlessTiny) {
  constexpr double kMiB = 1 << 20;
  EXPECT_EQ(staggered_bucket_bytes(1, 10 * kMiB, 25 * kMiB), 25 * kMiB);
  EXPECT_EQ(staggered_bucket_bytes(4, 10 * kMiB, 25 * kMiB), 2.5 * kMiB);
  EXPECT_EQ(staggered_bucket_bytes(4, 2 * kMiB, 25 * kMiB), kMiB);
  EXPECT_EQ(staggered_bucket_bytes(4, 1000 * kMiB, 25 * kMiB), 25 * kMiB);
}

}  // namespace
}  // namespace kith::graph
