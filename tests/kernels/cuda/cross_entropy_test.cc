#include "kith/kernels/cuda/cross_entropy.h"

#include <cmath>

#include <gtest/gtest.h>

#include "kith/base/rng.h"
#include "kith/kernels/half.h"
#include "tests/kernels/cuda/device_memory.h"

namespace kith::kernels {
namespace {

struct Case {
  std::size_t rows = 0;
  std::size_t classes = 0;
  std::size_t offset = 0;  // of the scores' first element: unaligned memory
};

constexpr float kScale = 3;
constexpr double kScoreSize = 4;

double wide(float x) {
  return x;
}
double wide(std::uint16_t bits) {
  return float_from_bf16(bits);
}

template <class E>
E rounded(double x) {
  if constexpr (std::is_same_v<E, float>) {
    return static_cast<float>(x);
  } else {
    return bf16_from_float(static_cast<float>(x));
  }
}

// E: float, or the bits of a bf16. The reference is in double, on the rounded scores.
template <class E>
void expect_agreement(const Case& size, DType type, double precision) {
  const auto& [rows, classes, offset] = size;
  SCOPED_TRACE(::testing::Message() << rows << " rows of " << classes << " from element " << offset);
  Rng rng(rows + classes);
  std::vector<E> scores(offset + rows * classes);
  std::vector<std::int64_t> targets(rows);
  for (E& score : scores)
    score = rounded<E>(kScoreSize * rng.normal());
  for (std::size_t r = 0; r < rows; ++r)
    targets[r] = static_cast<std::int64_t>((r * 7 + classes - 1) % classes);

  const OnGpu<E> on_scores(scores), on_gradient(std::vector<E>(offset + rows * classes));
  const OnGpu<std::int64_t> on_targets(targets);
  const OnGpu<float> on_log_sums(std::vector<float>(rows, 0)), on_losses(std::vector<float>(rows, 0)),
      on_scale(std::vector<float>{kScale});
  const Classification problem{on_scores.data() + offset, type, on_targets.data(), rows, classes};
  cross_entropy({}, problem, on_log_sums.data(), on_losses.data());
  cross_entropy_gradient({}, problem, on_log_sums.data(), on_scale.data(), on_gradient.data() + offset);

  const std::vector<float> losses = on_losses.back();
  const std::vector<E> gradient = on_gradient.back();
  for (std::size_t r = 0; r < rows; ++r) {
    const auto score = [&](std::size_t c) { return wide(scores[offset + r * classes + c]); };
    const auto target = static_cast<std::size_t>(targets[r]);
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c)
      sum += std::exp(score(c));
    EXPECT_NEAR(losses[r], std::log(sum) - score(target), 2e-5) << "row " << r;
    for (std::size_t c = 0; c < classes; ++c) {
      const double want =
          kScale / static_cast<double>(rows) * (std::exp(score(c)) / sum - (c == target ? 1 : 0));
      ASSERT_NEAR(wide(gradient[offset + r * classes + c]), want, precision * std::abs(want) + 1e-7)
          << "row " << r << ", class " << c;
    }
  }
}

TEST(CudaCrossEntropyTest, OddSizesAgreeWithTheFormula) {
  for (const Case& size :
       {Case{1, 1, 0}, Case{3, 7, 0}, Case{5, 1003, 0}, Case{4, 4096, 0}, Case{6, 5021, 3}}) {
    expect_agreement<float>(size, DType::f32, 1e-4);
    expect_agreement<std::uint16_t>(size, DType::bf16, 1.0 / 200);
  }
}

TEST(CudaCrossEntropyTest, ImpossibleClassesCountForNothingAndForeignTargetsAreSeen) {
  const std::size_t classes = 4100;
  std::vector<float> scores(2 * classes, -INFINITY);
  scores[4099] = 1;
  scores[4098] = 1;
  scores[classes] = 2;
  const OnGpu<float> on_scores(scores), on_log_sums(std::vector<float>(2)), on_losses(std::vector<float>(2));
  const OnGpu<std::int64_t> on_targets(std::vector<std::int64_t>{4099, 4100});
  cross_entropy({}, {on_scores.data(), DType::f32, on_targets.data(), 2, classes}, on_log_sums.data(),
                on_losses.data());
  const std::vector<float> losses = on_losses.back();
  EXPECT_NEAR(losses[0], std::log(2), 1e-6);
  EXPECT_TRUE(std::isnan(losses[1]));
}

}  // namespace
}  // namespace kith::kernels
