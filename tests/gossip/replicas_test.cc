#include "kith/gossip/replicas.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/rng.h"

namespace kith::gossip {
namespace {

constexpr std::size_t kCount = 96;

Replicas<float>::Options options_of(int self, std::vector<WorkerId> peers, const std::string& codec) {
  Replicas<float>::Options options;
  options.codec = codec;
  options.count = kCount;
  options.seed = 11;
  options.self = WorkerId{self};
  options.peers = std::move(peers);
  return options;
}

std::vector<float> walk(std::vector<float> x, Rng& rng) {
  for (float& value : x)
    value += static_cast<float>(rng.normal());
  return x;
}

bool same(const float* a, const float* b) {
  return std::memcmp(a, b, kCount * sizeof(float)) == 0;
}

// Worker 0 writes, workers 1 and 2 hold what they know of it: the same bits, after every message.
TEST(Replicas, AreTheSameAtAllHolders) {
  for (const char* codec : {"full", "int8", "qsgd 4", "qsgd-max 3", "sign", "top-k 0.1", "random-k 0.1"}) {
    Replicas<float> writer(options_of(0, {WorkerId{1}}, codec));
    Replicas<float> one(options_of(1, {WorkerId{0}}, codec)),
        two(options_of(2, {WorkerId{1}, WorkerId{0}}, codec));
    std::vector<std::byte> message(writer.largest_message());
    Rng rng(3);
    std::vector<float> x(kCount, 1.0F);
    for (std::uint64_t version = 1; version < 20; ++version) {
      x = walk(x, rng);
      const std::size_t bytes = writer.write(x.data(), version, message);
      const bool whole = version == 1;
      EXPECT_EQ(bytes, 16 + (whole ? kCount * 4 : writer.codec().bytes(kCount))) << codec;
      for (Replicas<float>* holder : {&one, &two}) {
        holder->take(WorkerId{0}, version, {message.data(), bytes});
        EXPECT_TRUE(holder->knows(WorkerId{0}));
        EXPECT_TRUE(same(holder->of(WorkerId{0}), writer.own())) << codec << ", version " << version;
      }
      if (whole) {
        EXPECT_TRUE(same(writer.own(), x.data()));
      }
    }
  }
}

// A message that did not come: the neighbour is done without until it was asked, and has sent all of itself.
TEST(Replicas, AMissedMessageIsMadeGood) {
  Replicas<float> left(options_of(0, {WorkerId{1}}, "sign")), right(options_of(1, {WorkerId{0}}, "sign"));
  std::vector<std::byte> from_left(left.largest_message()), from_right(left.largest_message());
  Rng rng(4);
  std::vector<float> x(kCount, 1.0F), y(kCount, -1.0F);
  for (std::uint64_t version = 1; version < 9; ++version) {
    x = walk(x, rng);
    y = walk(y, rng);
    const std::size_t left_bytes = left.write(x.data(), version, from_left);
    const std::size_t right_bytes = right.write(y.data(), version, from_right);
    left.take(WorkerId{1}, version, {from_right.data(), right_bytes});
    if (version == 4) {
      right.miss(WorkerId{0});
    } else {
      right.take(WorkerId{0}, version, {from_left.data(), left_bytes});
    }
    // Missed in 4, asked for in 5, whole in 6.
    const bool known = version < 4 || version >= 6;
    EXPECT_EQ(right.knows(WorkerId{0}), known) << version;
    if (known) {
      EXPECT_TRUE(same(right.of(WorkerId{0}), left.own())) << version;
    }
    EXPECT_TRUE(same(left.of(WorkerId{1}), right.own())) << version;
  }
  EXPECT_EQ(right.resyncs(), 1u);
  EXPECT_EQ(left.resyncs(), 0u);
}

TEST(Replicas, AMessageOfAnotherCodecIsAnError) {
  Replicas<float> writer(options_of(0, {}, "sign")), reader(options_of(1, {WorkerId{0}}, "int8"));
  std::vector<std::byte> message(writer.largest_message());
  const std::vector<float> x(kCount, 1.0F);
  reader.take(WorkerId{0}, 1, {message.data(), writer.write(x.data(), 1, message)});
  const std::size_t bytes = writer.write(x.data(), 2, message);
  EXPECT_THROW(reader.take(WorkerId{0}, 2, {message.data(), bytes}), Error);
  EXPECT_THROW(reader.take(WorkerId{0}, 2, {message.data(), 3}), Error);
}

TEST(WholePeriod, NamesEverybodyOfTheSchedule) {
  const auto schedule = graph::make_schedule({.topology = "exp", .shape = graph::Shape::single_node(8)});
  const graph::WorkerRound all = whole_period(*schedule, 0);
  EXPECT_EQ(all.reads.size(), 3u);
  EXPECT_EQ(all.readers, (std::vector<Rank>{1, 2, 4}));
}

}  // namespace
}  // namespace kith::gossip
