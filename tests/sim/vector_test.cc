#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "kith/base/rng.h"
#include "kith/sim/block.h"
#include "kith/sim/draw.h"

namespace kith::sim {
namespace {

// The targets that this processor has besides the plain one, which every other must match bit for bit.
std::vector<VectorTarget> others() {
  std::vector<VectorTarget> targets{VectorTarget::plain};
  if (vector_target() != VectorTarget::plain) targets.push_back(VectorTarget::avx2);
  if (vector_target() == VectorTarget::avx512) targets.push_back(VectorTarget::avx512);
  return targets;
}

std::vector<double> random_values(std::uint64_t seed, std::size_t count) {
  Rng rng(seed);
  std::vector<double> values(count);
  for (double& value : values)
    value = rng.uniform() + 0.1;
  return values;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

TEST(VectorTargets, DrawTheSameBits) {
  constexpr std::size_t kCount = 4096;
  const std::vector<double> base = random_values(1, 2 * kBins);
  const std::vector<double> slope = random_values(2, 2 * kBins);
  std::vector<std::uint32_t> words(kCount);
  draw_words(5, kCount / 2, words.data(), VectorTarget::plain);
  std::vector<double> expected(kCount);
  draw_values(words.data(), kCount, base.data(), slope.data(), expected.data(), VectorTarget::plain);
  for (const VectorTarget target : others()) {
    std::vector<std::uint32_t> same(kCount);
    draw_words(5, kCount / 2, same.data(), target);
    EXPECT_EQ(same, words) << static_cast<int>(target);
    std::vector<double> values(kCount);
    draw_values(words.data(), kCount, base.data(), slope.data(), values.data(), target);
    EXPECT_TRUE(same_bits(values, expected)) << static_cast<int>(target);
  }
}

struct Outcome {
  std::vector<double> now, when, waited;
};

template <class Recursion>
Outcome outcome_of(Recursion recursion) {
  constexpr std::size_t kBuckets = 13;
  const std::vector<double> forward = random_values(1, kLanes), pace = random_values(2, kLanes),
                            slowness = random_values(3, kLanes),
                            backward = random_values(4, kBuckets * kLanes),
                            step = random_values(5, kBuckets * kLanes),
                            backward_mean = random_values(6, kBuckets),
                            step_mean = random_values(7, kBuckets);
  const BlockTimes times{kBuckets,    forward.data(),   backward.data(), backward_mean.data(),
                         step.data(), step_mean.data(), pace.data(),     slowness.data()};
  Outcome outcome{random_values(8, kLanes), random_values(9, kBuckets * kLanes), random_values(10, kLanes)};
  for (double& arrival : outcome.when)
    arrival *= 8;  // some are waited for, some are not
  recursion(times, outcome);
  return outcome;
}

void expect_same(const Outcome& a, const Outcome& b, VectorTarget target) {
  EXPECT_TRUE(same_bits(a.now, b.now)) << static_cast<int>(target);
  EXPECT_TRUE(same_bits(a.when, b.when)) << static_cast<int>(target);
  EXPECT_TRUE(same_bits(a.waited, b.waited)) << static_cast<int>(target);
}

TEST(VectorTargets, AdvanceToTheSameBits) {
  for (const auto advance : {mix_in_backward, mix_at_step}) {
    const auto run = [&](VectorTarget target) {
      return outcome_of([&](const BlockTimes& times, Outcome& o) {
        advance(times, o.now.data(), o.when.data(), o.waited.data(), target);
      });
    };
    const Outcome expected = run(VectorTarget::plain);
    EXPECT_FALSE(same_bits(expected.waited, random_values(10, kLanes)));
    for (const VectorTarget target : others())
      expect_same(run(target), expected, target);
  }
}

TEST(VectorTargets, ReduceToTheSameBits) {
  const auto run = [](VectorTarget target) {
    return outcome_of([&](const BlockTimes& times, Outcome& o) {
      run_gradients(times, o.now.data(), o.when.data(), target);
      run_step(times, o.now.data(), target);
    });
  };
  const Outcome expected = run(VectorTarget::plain);
  for (const VectorTarget target : others())
    expect_same(run(target), expected, target);
}

}  // namespace
}  // namespace kith::sim
