#include "kith/kernels/cpu/cpu_kernels.h"
#include "tests/kernels/agreement.h"
#include "tests/kernels/targets.h"

namespace kith::kernels {
namespace {

template <class T>
void expect_agreement(const Shape& shape) {
  Memory here;
  expect_agreement(*make_cpu_kernels<T>(), shape, here);
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

// What rounds on a bf16 wire ask for, which has loops of its own; and their likes, which have none.
TEST_P(StepsTest, AgreeWithTheReferenceForPairsAndMeansOnABf16Wire) {
  constexpr DType kOwn = DType::f32, kWire = DType::bf16;
  std::uint64_t seed = 0;
  for (const std::vector<DType>& sources : {std::vector{kOwn, kWire, kWire},
                                            {kOwn, kOwn, kWire},
                                            {kWire, kOwn, kWire},
                                            {kOwn, kWire, DType::f16}}) {
    for (const std::size_t offset : {0, 1}) {
      for (const auto encoded : {std::optional<DType>{}, std::optional{kWire}}) {
        const Shape shape{
            .count = 259, .offset = offset, .sources = sources, .encoded = encoded, .seed = ++seed};
        expect_agreement<float>(shape);
        expect_agreement<double>(shape);
      }
    }
  }
}

TEST_P(StepsTest, AnEncodingInTheValuesOwnTypeIsACopy) {
  for (const std::size_t offset : {0, 1}) {
    expect_agreement<float>(
        {.count = 259, .offset = offset, .sources = {DType::f32, DType::f32}, .encoded = DType::f32});
    expect_agreement<double>(
        {.count = 259, .offset = offset, .sources = {DType::f64, DType::f64}, .encoded = DType::f64});
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

// 1 + 2^-11 is half way between two numbers of fp16. A little more than that is no float, so that float
// kernels publish, and round, the tie.
TEST_P(StepsTest, WhatIsRoundedIsTheValueInTheKernelsOwnType) {
  const double x = 1 + 0x1p-11 + 0x1p-40;
  const Source source{&x, DType::f64, 1, DType::f16};
  const Mix mix{{&source, 1}};
  for (const auto& kernels : {make_cpu_kernels<float>(), make_reference_kernels<float>()}) {
    float mixed = 0;
    kernels->mix({&mixed}, mix, 1);
    EXPECT_EQ(mixed, 1);
  }
  for (const auto& kernels : {make_cpu_kernels<double>(), make_reference_kernels<double>()}) {
    double mixed = 0;
    kernels->mix({&mixed}, mix, 1);
    EXPECT_EQ(mixed, 1 + 0x1p-10);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, StepsTest, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace kith::kernels
