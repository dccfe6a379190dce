#include <cmath>
#include <limits>

#include "kith/kernels/cpu/cpu_kernels.h"
#include "kith/kernels/reference/reference_kernels.h"
#include "tests/kernels/problem.h"
#include "tests/kernels/targets.h"

namespace kith::kernels {
namespace {

template <class T>
void expect_same_kind(T got, T want, const std::string& what) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << what << ": " << got << " instead of NaN";
  } else if (std::isinf(want)) {
    EXPECT_EQ(got, want) << what;
  } else {
    EXPECT_NEAR(got, want, 2e-6 * std::max(1.0, std::fabs(static_cast<double>(want)))) << what;
  }
}

template <class T>
void expect_special_values_travel() {
  const double specials[] = {std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             0.0,
                             -0.0,
                             1e-40,
                             -1e-40};
  const auto reference = make_reference_kernels<T>();
  const auto cpu = make_cpu_kernels<T>();
  for (const DType peer : {dtype_of<T>(), DType::bf16, DType::f16}) {
    const Shape shape{
        .count = 39, .sources = {dtype_of<T>(), peer}, .gradient = peer, .encoded = DType::bf16};
    for (const Step& step : all_steps()) {
      Problem<T> want(shape);
      Problem<T> got(shape);
      for (std::size_t i = 0; i < std::size(specials); ++i) {
        for (const std::size_t at : {i, 38 - i}) {  // in the vectors, and in the remainder
          want.poison(at, specials[i]);
          got.poison(at, specials[i]);
        }
      }
      want.run(*reference, step);
      got.run(*cpu, step);
      for (std::size_t i = 0; i < shape.count; ++i) {
        const std::string what = step.name + " " + describe(shape) + " element " + std::to_string(i);
        expect_same_kind(got.values()[i], want.values()[i], what);
        for (std::size_t k = 0; k < 3; ++k)
          expect_same_kind(got.state(k)[i], want.state(k)[i], what);
      }
    }
  }
}

class SpecialTest : public EachTarget {};

TEST_P(SpecialTest, NanInfinityZeroAndDenormalsTravelAsInTheReference) {
  expect_special_values_travel<float>();
  expect_special_values_travel<double>();
}

template <class T>
void expect_denormals_kept() {
  constexpr std::size_t kCount = 67;
  const T least = std::numeric_limits<T>::denorm_min();
  std::vector<T> a(kCount), b(kCount), to(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    a[i] = static_cast<T>(2 * i) * least;
    b[i] = static_cast<T>(4 * i) * least;
  }
  const Source sources[] = {{a.data(), dtype_of<T>(), 0.5}, {b.data(), dtype_of<T>(), 0.5}};
  make_cpu_kernels<T>()->mix({to.data()}, {sources}, kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    EXPECT_EQ(to[i], static_cast<T>(3 * i) * least) << "element " << i;
}

TEST_P(SpecialTest, DenormalsAreNotFlushed) {
  expect_denormals_kept<float>();
  expect_denormals_kept<double>();
}

TEST_P(SpecialTest, DivisionAndSquareRootAreExactlyRounded) {
  constexpr std::size_t kCount = 97;
  const AdamOptions options{.lr = 1, .beta1 = 0, .beta2 = 0, .eps = 0};
  std::vector<float> g(kCount), m(kCount), v(kCount), x(kCount), to(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    g[i] = 0.37F + static_cast<float>(i);
  const Source source{x.data(), DType::f32, 1};
  make_cpu_kernels<float>()->mix_adam({to.data()}, {{&source, 1}}, {g.data()}, m.data(), v.data(), options,
                                      kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    EXPECT_EQ(to[i], -(g[i] / std::sqrt(g[i] * g[i]))) << "element " << i;
}

INSTANTIATE_TEST_SUITE_P(Targets, SpecialTest, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace kith::kernels
