#include <limits>
#include <utility>

#include "kith/base/rng.h"
#include "kith/kernels/cpu/cpu_kernels.h"
#include "kith/kernels/reference/reference_kernels.h"
#include "tests/kernels/targets.h"

namespace kith::kernels {
namespace {

class NormsTest : public EachTarget {};

template <class T>
std::vector<T> normals(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<T> made(count);
  for (T& x : made)
    x = static_cast<T>(rng.normal());
  return made;
}

template <class T>
void expect_norms(std::size_t count) {
  const auto a = normals<T>(count, 1);
  const auto b = normals<T>(count, 2);
  const Norms want = make_reference_kernels<T>()->norms(a.data(), b.data(), count);
  const Norms one = make_cpu_kernels<T>()->norms(a.data(), b.data(), count);
  EXPECT_NEAR(one.squared_norm, want.squared_norm, 1e-12 * want.squared_norm) << count;
  EXPECT_NEAR(one.squared_distance, want.squared_distance, 1e-12 * want.squared_distance) << count;
  for (const int threads : {2, 3, 8}) {
    const Norms many = make_cpu_kernels<T>({.threads = threads})->norms(a.data(), b.data(), count);
    EXPECT_EQ(many.squared_norm, one.squared_norm) << count << " with " << threads << " threads";
    EXPECT_EQ(many.squared_distance, one.squared_distance) << count << " with " << threads << " threads";
  }
  const Norms alone = make_cpu_kernels<T>()->norms(a.data(), nullptr, count);
  EXPECT_EQ(alone.squared_norm, one.squared_norm);
  EXPECT_EQ(alone.squared_distance, 0);
}

TEST_P(NormsTest, AgreeWithTheReferenceForAnyThreadCount) {
  for (const std::size_t count : {0, 1, 2, 3, 17, 4095, 4096, 4097, 200'003}) {
    expect_norms<float>(count);
    expect_norms<double>(count);
  }
}

TEST_P(NormsTest, SumFloatsInDouble) {
  constexpr std::size_t kCount = 5000;
  std::vector<float> a(kCount, 1e30F);
  const double want = kCount * static_cast<double>(1e30F) * static_cast<double>(1e30F);
  EXPECT_NEAR(make_cpu_kernels<float>()->norms(a.data(), nullptr, kCount).squared_norm, want, 1e-12 * want);
  a[4321] = std::numeric_limits<float>::quiet_NaN();
  const Norms norms = make_cpu_kernels<float>()->norms(a.data(), nullptr, kCount);
  EXPECT_NE(norms.squared_norm, norms.squared_norm);
}

TEST_P(NormsTest, SumSquaresOfVectorsOfAnyType) {
  const auto a = normals<float>(10'001, 3);
  const auto b = normals<double>(4'097, 4);
  std::vector<std::uint16_t> c(777);
  const auto cpu = make_cpu_kernels<float>();
  cpu->convert(c.data(), DType::bf16, a.data(), DType::f32, c.size());
  const Vector vectors[] = {{a.data(), DType::f32, a.size()},
                            {b.data(), DType::f64, b.size()},
                            {c.data(), DType::bf16, c.size()},
                            {nullptr, DType::f32, 0}};
  double want = 0, got = -1;
  make_reference_kernels<float>()->sum_squares(vectors, &want);
  cpu->sum_squares(vectors, &got);
  EXPECT_NEAR(got, want, 1e-6 * want);  // the doubles are rounded to float first
  EXPECT_NEAR(want, 10'001 + 4'097 + 777, 600);
}

// Bits of a type's largest number, of infinity and of a NaN; the exponent of the first is not full.
template <class Word>
struct Extremes {
  DType type;
  Word largest, infinity, nan;
};

template <class Word>
void expect_found(const Extremes<Word>& e) {
  for (const std::size_t count : {1, 3, 17, 100'003}) {
    for (const auto& kernels : {make_cpu_kernels<float>({.threads = 3}), make_reference_kernels<float>()}) {
      std::vector<Word> words(count, e.largest);
      const Word minus = static_cast<Word>(e.largest | static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1)));
      words[count / 2] = minus;
      const Vector vectors[] = {{nullptr, DType::f32, 0}, {words.data(), e.type, count}};
      float found = -1;
      kernels->find_non_finite(vectors, &found);
      EXPECT_EQ(found, 0) << name_of(e.type) << ", " << count << ": its square may be infinite, it is not";
      for (const std::size_t place : {std::size_t{0}, count / 3, count - 1}) {
        for (const Word odd : {e.infinity, e.nan}) {
          const Word before = std::exchange(words[place], odd);
          kernels->find_non_finite(vectors, &found);
          EXPECT_EQ(found, 1) << name_of(e.type) << ", " << count << " at " << place;
          words[place] = before;
          kernels->find_non_finite(vectors, &found);
          EXPECT_EQ(found, 0);
        }
      }
    }
  }
}

TEST_P(NormsTest, FindInfAndNanAndNothingElse) {
  expect_found<std::uint32_t>({DType::f32, 0x7f7fffffU, 0x7f800000U, 0xffc00001U});
  expect_found<std::uint64_t>({DType::f64, 0x7fefffffffffffffU, 0xfff0000000000000U, 0x7ff0000000000001U});
  expect_found<std::uint16_t>({DType::bf16, 0x7f7fU, 0x7f80U, 0xff81U});
  expect_found<std::uint16_t>({DType::f16, 0x7bffU, 0xfc00U, 0x7c01U});
}

TEST_P(NormsTest, ClipAsTorchDoes) {
  const auto cpu = make_cpu_kernels<float>();
  double factor = -1, sum = 25;
  cpu->clip_factor(&sum, 1, &factor);
  EXPECT_NEAR(factor, 0.2, 1e-7);
  cpu->clip_factor(&sum, 6, &factor);
  EXPECT_EQ(factor, 1);
  sum = std::numeric_limits<double>::quiet_NaN();
  cpu->clip_factor(&sum, 6, &factor);
  EXPECT_NE(factor, factor);
}

TEST_P(NormsTest, AFactorMultipliesTheGradientsScale) {
  const auto start = normals<float>(77, 5);
  const auto g = normals<float>(77, 6);
  const double factor = 0.375;
  const Source source{start.data(), DType::f32, 1};
  for (const auto& kernels : {make_cpu_kernels<float>(), make_reference_kernels<float>()}) {
    std::vector<float> want(77), got(77);
    kernels->mix_sgd({want.data()}, {{&source, 1}}, {g.data(), DType::f32, 0.5 * 0.375}, nullptr, {.lr = 0.1},
                     77);
    kernels->mix_sgd({got.data()}, {{&source, 1}}, {g.data(), DType::f32, 0.5, &factor}, nullptr, {.lr = 0.1},
                     77);
    EXPECT_EQ(got, want);
    EXPECT_NE(got, start);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, NormsTest, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace kith::kernels
