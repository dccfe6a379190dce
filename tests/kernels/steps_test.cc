#include <cmath>

#include "kith/kernels/cpu/cpu_kernels.h"
#include "kith/kernels/reference/reference_kernels.h"
#include "tests/kernels/problem.h"
#include "tests/kernels/targets.h"

namespace kith::kernels {
namespace {

template <class T>
constexpr double kTolerance = sizeof(T) == 4 ? 2e-6 : 1e-14;

template <class T>
void expect_near(const std::vector<T>& got, const std::vector<T>& want, const std::string& what) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double scale = std::max(1.0, std::fabs(static_cast<double>(want[i])));
    ASSERT_NEAR(got[i], want[i], kTolerance<T> * scale) << what << " element " << i;
  }
}

// Every step on `shape` by the reference and by the cpu kernels.
template <class T>
void expect_agreement(const Shape& shape) {
  const auto reference = make_reference_kernels<T>();
  const auto cpu = make_cpu_kernels<T>();
  for (const Step& step : all_steps()) {
    SCOPED_TRACE(step.name + " " + describe(shape));
    Problem<T> want(shape);
    Problem<T> got(shape);
    want.run(*reference, step);
    got.run(*cpu, step);
    expect_near(got.values(), want.values(), "values");
    for (std::size_t k = 0; k < 3; ++k)
      expect_near(got.state(k), want.state(k), "state");
    if (shape.encoded) {
      std::vector<std::uint16_t> rounded(shape.count);
      reference->convert(rounded.data(), *shape.encoded, got.values().data(), dtype_of<T>(), shape.count);
      EXPECT_EQ(got.encoded(), rounded);
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

class StepsTest : public EachTarget {};

TEST_P(StepsTest, AgreeWithTheReferenceForAnyNumberOfSources) {
  for (std::size_t k = 1; k <= 7; ++k) {
    expect_agreement<float>({.count = 259, .sources = std::vector(k, DType::f32), .seed = k});
    expect_agreement<double>(
        {.count = 131, .sources = std::vector(k, DType::f64), .gradient = DType::f64, .seed = k});
  }
}

TEST_P(StepsTest, AgreeWithTheReferenceForOddSizesAndUnalignedSpans) {
  for (const std::size_t count : {1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 65}) {
    for (const std::size_t offset : {0, 1, 3}) {
      expect_agreement<float>({.count = count, .offset = offset, .sources = {DType::f32, DType::f32}});
      expect_agreement<double>(
          {.count = count, .offset = offset, .sources = {DType::f64, DType::f64}, .gradient = DType::f64});
    }
  }
}

TEST_P(StepsTest, AgreeWithTheReferenceForEveryCombinationOfTypes) {
  constexpr DType kTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
  std::uint64_t seed = 0;
  for (const DType self : kTypes) {
    for (const DType peer : kTypes) {
      for (const DType gradient : kTypes) {
        for (const auto encoded :
             {std::optional<DType>{}, std::optional{DType::bf16}, std::optional{DType::f16}}) {
          const Shape shape{.count = 37,
                            .offset = 1,
                            .sources = {self, peer},
                            .gradient = gradient,
                            .encoded = encoded,
                            .seed = ++seed};
          expect_agreement<float>(shape);
          expect_agreement<double>(shape);
        }
      }
    }
  }
}

TEST_P(StepsTest, AMixMayWriteOnlyTheEncodedCopy) {
  const auto cpu = make_cpu_kernels<float>();
  const std::vector<float> a{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  std::vector<std::uint16_t> encoded(a.size());
  std::vector<float> back(a.size());
  const Source source{a.data(), DType::f32, 0.5};
  cpu->mix({nullptr, encoded.data(), DType::f16}, {{&source, 1}}, a.size());
  cpu->convert(back.data(), DType::f32, encoded.data(), DType::f16, a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(back[i], a[i] / 2);
}

INSTANTIATE_TEST_SUITE_P(Targets, StepsTest, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace kith::kernels
