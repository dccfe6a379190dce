#include "kith/sim/distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/sim/draw.h"

namespace kith::sim {
namespace {

std::vector<double> draw(const Distribution& d, std::size_t count, std::uint64_t key) {
  std::vector<std::uint32_t> words(count);
  fill_words(key, words);
  std::vector<double> values(count);
  d.shape()->draw(words, values);
  for (double& value : values)
    value *= d.mean_s();
  return values;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments_of(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double square = 0;
  for (const double v : values)
    square += (v - mean) * (v - mean);
  return {mean, std::sqrt(square / n)};
}

TEST(NormalQuantile, InvertsTheTail) {
  for (const double p : {1e-12, 2.3e-10, 1e-6, 1e-3, 0.02425, 0.2, 0.5}) {
    const double z = normal_quantile(p);
    EXPECT_NEAR(0.5 * std::erfc(-z / std::numbers::sqrt2) / p, 1, 1e-12) << p;
    EXPECT_DOUBLE_EQ(normal_quantile(1 - 0.25), -normal_quantile(0.25));
  }
}

class LognormalMoments : public testing::TestWithParam<double> {};

TEST_P(LognormalMoments, MatchTheFormulas) {
  const double cv = GetParam();
  const Distribution d = Distribution::lognormal(2e-3, cv);
  constexpr std::size_t kCount = 1 << 20;
  const std::uint64_t seed = 7;
  const std::vector<double> values = draw(d, kCount, seed);
  const Moments m = moments_of(values);
  const double sigma = std::sqrt(std::log1p(cv * cv));
  EXPECT_NEAR(m.mean / 2e-3, 1, 5 * cv / 1024) << "seed " << seed;
  EXPECT_NEAR(d.cv() / cv, 1, 1e-3);
  // The variance of the logarithm has a known sampling error, whatever the tail of the values.
  std::vector<double> logs;
  std::transform(values.begin(), values.end(), std::back_inserter(logs),
                 [](double v) { return std::log(v); });
  EXPECT_NEAR(moments_of(logs).deviation / sigma, 1, 5e-3) << "seed " << seed;
  EXPECT_NEAR(moments_of(logs).mean, std::log(2e-3) - sigma * sigma / 2, 6 * sigma / 1024 + 1e-4)
      << "seed " << seed;
}

INSTANTIATE_TEST_SUITE_P(Spreads, LognormalMoments, testing::Values(0.01, 0.2, 1.0));

// Kolmogorov's distance of a million draws; 1.95 / sqrt(n) is exceeded with probability 0.001.
TEST(Lognormal, FollowsItsDistributionFunction) {
  const double cv = 0.5;
  const double sigma = std::sqrt(std::log1p(cv * cv));
  constexpr std::size_t kCount = 1 << 20;
  const std::uint64_t seed = 11;
  std::vector<double> values = draw(Distribution::lognormal(1, cv), kCount, seed);
  std::sort(values.begin(), values.end());
  double distance = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double z = (std::log(values[i]) + sigma * sigma / 2) / sigma;
    const double expected = 0.5 * std::erfc(-z / std::numbers::sqrt2);
    distance = std::max(distance, std::abs(expected - (static_cast<double>(i) + 0.5) / kCount));
  }
  EXPECT_LT(distance, 1.95 / 1024) << "seed " << seed;
}

// A barrier over many workers reads the tail: the words nearest the ends must reach beyond six standard
// deviations.
TEST(Lognormal, HasItsFarTails) {
  const double sigma = std::sqrt(std::log1p(0.04));
  const Distribution d = Distribution::lognormal(1, 0.2);
  const std::vector<std::uint32_t> words{0, 1, 0x80000000U, 0x80000001U, 0x7fffffffU, 0xffffffffU, 2, 3};
  std::vector<double> values(8);
  d.shape()->draw(words, values);
  const auto expected = [&](double p, double sign) {
    return std::exp(sign * sigma * normal_quantile(p) - sigma * sigma / 2);
  };
  EXPECT_NEAR(values[0], expected(0x0.8p-32, 1), 1e-4);
  EXPECT_NEAR(values[1], expected(0x1.8p-32, 1), 1e-4);
  EXPECT_NEAR(values[2], expected(0x0.8p-32, -1), 2e-3);
  EXPECT_NEAR(values[4], std::exp(-sigma * sigma / 2), 1e-4);
  EXPECT_NEAR(values[5], std::exp(-sigma * sigma / 2), 1e-4);
}

TEST(Normal, KeepsItsMeanAndIsNeverNegative) {
  for (const double cv : {0.1, 0.5, 2.0}) {
    const std::vector<double> values = draw(Distribution::normal(3, 3 * cv), 1 << 18, 5);
    EXPECT_NEAR(moments_of(values).mean, 3, 3 * 6 * cv / 512) << cv;
    EXPECT_GE(*std::min_element(values.begin(), values.end()), 0) << cv;
  }
  EXPECT_NEAR(moments_of(draw(Distribution::normal(3, 0.3), 1 << 18, 5)).deviation, 0.3, 0.003);
}

TEST(Samples, AreDrawnInTheirProportions) {
  std::vector<double> measured(90, 1.0);
  measured.resize(100, 5.0);
  const Distribution d = Distribution::samples(measured);
  EXPECT_NEAR(d.mean_s(), 1.4, 1e-12);
  const std::vector<double> values = draw(d, 1 << 18, 3);
  EXPECT_NEAR(moments_of(values).mean, 1.4, 0.02);
  const auto large = std::count_if(values.begin(), values.end(), [](double v) { return v > 3; });
  EXPECT_NEAR(static_cast<double>(large) / static_cast<double>(values.size()), 0.1, 0.01);
  EXPECT_LE(*std::max_element(values.begin(), values.end()), 5.01);
}

TEST(Samples, OneValueIsAConstant) {
  EXPECT_TRUE(Distribution::samples({2, 2, 2}).is_constant());
}

// A changed generator would silently change every prediction.
TEST(Draw, WordsAreSplitmix) {
  std::vector<std::uint32_t> words(8);
  fill_words(42, words);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(words[2 * i], static_cast<std::uint32_t>(mix_bits(42 + i)));
    EXPECT_EQ(words[2 * i + 1], static_cast<std::uint32_t>(mix_bits(42 + i) >> 32));
  }
}

TEST(Distribution, RefusesNonsense) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(Distribution::constant(-1), InputError);
  EXPECT_THROW(Distribution::constant(nan), InputError);
  EXPECT_THROW(Distribution::lognormal(1, -0.1), InputError);
  EXPECT_THROW(Distribution::normal(1, nan), InputError);
  EXPECT_THROW(Distribution::samples({}), InputError);
  EXPECT_THROW(Distribution::samples({1, -1}), InputError);
}

}  // namespace
}  // namespace kith::sim
