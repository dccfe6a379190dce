#include "kith/kernels/cpu/model_loops.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>

#include "kith/base/rng.h"
#include "tests/kernels/targets.h"

namespace kith::kernels {
namespace {

constexpr std::uint64_t kLoopsSeed = 16;
constexpr std::size_t kGap = 5;  // numbers between two positions that belong to nobody
constexpr float kNobodys = 77;

std::vector<float> draw_floats(Rng& rng, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values)
    value = static_cast<float>(4 * rng.uniform() - 2);
  return values;
}

// Everything in double, by the formulas.
struct PlainHead {
  std::vector<double> weights;  // (length, length)
  std::vector<double> seen;     // these are (length, width)
  std::vector<double> of_query, of_key, of_value;
};

PlainHead attend_plainly(const AttentionHead& head, const float* of_seen, std::size_t seen_stride) {
  const std::size_t n = head.length, width = head.width;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const auto at = [&](const float* of, std::size_t i, std::size_t c) {
    return static_cast<double>(of[i * head.stride + c]);
  };
  PlainHead plain;
  plain.weights.assign(n * n, 0);
  for (auto* each : {&plain.seen, &plain.of_query, &plain.of_key, &plain.of_value})
    each->assign(n * width, 0);
  for (std::size_t i = 0; i < n; ++i) {
    double* weights = &plain.weights[i * n];
    double sum = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      double score = 0;
      for (std::size_t c = 0; c < width; ++c)
        score += at(head.query, i, c) * at(head.key, j, c);
      sum += weights[j] = std::exp(scale * score);
    }
    std::vector<double> of_weights(n);
    double along = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      weights[j] /= sum;
      for (std::size_t c = 0; c < width; ++c) {
        const double of = of_seen[i * seen_stride + c];
        plain.seen[i * width + c] += weights[j] * at(head.value, j, c);
        plain.of_value[j * width + c] += weights[j] * of;
        of_weights[j] += of * at(head.value, j, c);
      }
      along += weights[j] * of_weights[j];
    }
    for (std::size_t j = 0; j <= i; ++j) {
      const double of_score = weights[j] * (of_weights[j] - along) * scale;
      for (std::size_t c = 0; c < width; ++c) {
        plain.of_query[i * width + c] += of_score * at(head.key, j, c);
        plain.of_key[j * width + c] += of_score * at(head.query, i, c);
      }
    }
  }
  return plain;
}

void expect_rows_near(const float* got, std::size_t stride, const std::vector<double>& want,
                      std::size_t width, const char* what) {
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i / width * stride + i % width], want[i], 2e-5)
        << what << ", position " << i / width << ", number " << i % width;
}

void expect_formulas(const ModelLoops& loops, std::size_t length, std::size_t width) {
  SCOPED_TRACE(testing::Message() << length << " positions, width " << width << ", seed " << kLoopsSeed);
  Rng rng(kLoopsSeed);
  const std::size_t stride = 3 * width + kGap, seen_stride = width + kGap;
  const std::vector<float> numbers = draw_floats(rng, length * stride),
                           of_seen = draw_floats(rng, length * seen_stride);
  const AttentionHead head{numbers.data(), &numbers[width], &numbers[2 * width], stride, length, width};
  std::vector<float> weights(length * attention_row(length)), scratch(attention_scratch(head), kNobodys);
  std::vector<float> seen(length * seen_stride, kNobodys), gradient(length * stride, kNobodys);
  loops.attend(head, weights.data(), seen.data(), seen_stride, scratch.data());
  loops.attend_gradient(head, weights.data(), of_seen.data(), seen_stride,
                        {gradient.data(), &gradient[width], &gradient[2 * width]}, scratch.data());
  const PlainHead plain = attend_plainly(head, of_seen.data(), seen_stride);
  expect_rows_near(weights.data(), attention_row(length), plain.weights, length, "weights");
  expect_rows_near(seen.data(), seen_stride, plain.seen, width, "seen");
  expect_rows_near(gradient.data(), stride, plain.of_query, width, "gradient of the query");
  expect_rows_near(&gradient[width], stride, plain.of_key, width, "gradient of the key");
  expect_rows_near(&gradient[2 * width], stride, plain.of_value, width, "gradient of the value");
  for (std::size_t i = 0; i < length; ++i) {
    for (std::size_t c = 0; c < kGap; ++c) {
      ASSERT_EQ(seen[i * seen_stride + width + c], kNobodys);
      ASSERT_EQ(gradient[i * stride + 3 * width + c], kNobodys);
    }
  }
}

using ModelLoopsTest = EachTarget;

TEST_P(ModelLoopsTest, AttentionIsThatOfTheFormulas) {
  const auto loops = select_model_loops();
  ASSERT_EQ(loops.has_value(), GetParam() != "portable");
  if (!loops) return;
  for (const std::size_t length : {1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 63, 64, 65, 100})
    for (const std::size_t width : {16, 32, 48, 64})
      expect_formulas(*loops, length, width);
}

TEST_P(ModelLoopsTest, AttentionHidesNothingThatIsNoNumber) {
  const auto loops = select_model_loops();
  ASSERT_EQ(loops.has_value(), GetParam() != "portable");
  if (!loops) return;
  const std::size_t length = 9, width = 16;
  Rng rng(kLoopsSeed);
  std::vector<float> numbers = draw_floats(rng, length * 3 * width);
  numbers[4 * 3 * width + width] = std::numeric_limits<float>::quiet_NaN();  // a key of position 4
  const AttentionHead head{numbers.data(), &numbers[width], &numbers[2 * width], 3 * width, length, width};
  std::vector<float> weights(length * attention_row(length)), scratch(attention_scratch(head)),
      seen(length * width);
  loops->attend(head, weights.data(), seen.data(), width, scratch.data());
  for (std::size_t i = 0; i < length; ++i)
    EXPECT_EQ(std::isnan(seen[i * width]), i >= 4) << i;
}

TEST_P(ModelLoopsTest, GeluIsThatOfTheFormula) {
  const auto loops = select_model_loops();
  ASSERT_EQ(loops.has_value(), GetParam() != "portable");
  if (!loops) return;
  for (const std::size_t count : {1, 7, 16, 40'003}) {
    std::vector<float> x(count), y(count, kNobodys), slope(count, kNobodys);
    for (std::size_t i = 0; i < count; ++i)
      x[i] = count == 1
                 ? 0.5F
                 : static_cast<float>(-20 + 40.0 * static_cast<double>(i) / static_cast<double>(count - 1));
    loops->gelu(x.data(), y.data(), slope.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      const double at = x[i];
      const double phi = std::erfc(-at / std::numbers::sqrt2) / 2;
      const double density = std::exp(-at * at / 2) / std::sqrt(2 * std::numbers::pi);
      ASSERT_NEAR(y[i], at * phi, 1e-6 * std::max(1e-6, std::abs(at * phi)) + 2e-7) << at;
      ASSERT_NEAR(slope[i], phi + at * density, 1e-6) << at;
    }
  }
}

TEST_P(ModelLoopsTest, GeluOfWhatIsNoNumberIsNone) {
  const auto loops = select_model_loops();
  ASSERT_EQ(loops.has_value(), GetParam() != "portable");
  if (!loops) return;
  std::vector<float> x(20, std::numeric_limits<float>::quiet_NaN()), y(20), slope(20);
  loops->gelu(x.data(), y.data(), slope.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_TRUE(std::isnan(y[i]) && std::isnan(slope[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Cpu, ModelLoopsTest, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace kith::kernels
