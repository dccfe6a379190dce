#include <bit>
#include <cstring>
#include <limits>

#include "kith/base/rng.h"
#include "kith/kernels/cpu/cpu_kernels.h"
#include "kith/kernels/half.h"
#include "kith/kernels/reference/reference_kernels.h"
#include "tests/kernels/targets.h"

namespace kith::kernels {
namespace {

class ConvertTest : public EachTarget {
 protected:
  template <class To, class From>
  std::vector<To> convert(Kernels<float>& kernels, DType to_type, const std::vector<From>& from,
                          DType from_type) {
    std::vector<To> to(from.size());
    kernels.convert(to.data(), to_type, from.data(), from_type, from.size());
    return to;
  }

  template <class To, class From>
  void expect_agreement(DType to_type, const std::vector<From>& from, DType from_type) {
    const auto got = convert<To>(*cpu_, to_type, from, from_type);
    const auto want = convert<To>(*reference_, to_type, from, from_type);
    for (std::size_t i = 0; i < from.size(); ++i) {
      const bool both_nan = got[i] != got[i] && want[i] != want[i];
      ASSERT_TRUE(both_nan || std::memcmp(&got[i], &want[i], sizeof(To)) == 0)
          << name_of(from_type) << " to " << name_of(to_type) << " element " << i << ": " << got[i] << " vs "
          << want[i];
    }
  }

  template <class From>
  void expect_agreement_for_all(const std::vector<From>& from, DType from_type) {
    expect_agreement<float>(DType::f32, from, from_type);
    expect_agreement<double>(DType::f64, from, from_type);
    expect_agreement<std::uint16_t>(DType::bf16, from, from_type);
    expect_agreement<std::uint16_t>(DType::f16, from, from_type);
  }

  const std::unique_ptr<Kernels<float>> reference_ = make_reference_kernels<float>();
  std::unique_ptr<Kernels<float>> cpu_;

  void SetUp() override {
    EachTarget::SetUp();
    cpu_ = make_cpu_kernels<float>();
  }
};

TEST_P(ConvertTest, EverySixteenBitValueConvertsAsInTheReference) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<std::uint16_t>(i);
  expect_agreement_for_all(all, DType::bf16);
  expect_agreement_for_all(all, DType::f16);
}

TEST_P(ConvertTest, TiesAndTheirNeighboursRoundAsInTheReference) {
  std::vector<float> floats;
  std::vector<double> doubles;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    // Half a last place of f16 above every f16, and of bf16 above every bf16.
    const float f16 = float_from_f16(static_cast<std::uint16_t>(bits));
    const float f16_next = float_from_f16(static_cast<std::uint16_t>(bits ^ 1U));
    const auto bf16_tie = std::bit_cast<float>((bits << 16) | 0x8000U);
    for (const float tie : {(f16 + f16_next) / 2, bf16_tie}) {
      for (const std::uint32_t nudge : {0xffffffffU, 0U, 1U}) {
        floats.push_back(std::bit_cast<float>(std::bit_cast<std::uint32_t>(tie) + nudge));
      }
      for (const std::uint64_t nudge : {~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{1}}) {
        doubles.push_back(
            std::bit_cast<double>(std::bit_cast<std::uint64_t>(static_cast<double>(tie)) + nudge));
      }
    }
  }
  expect_agreement_for_all(floats, DType::f32);
  expect_agreement_for_all(doubles, DType::f64);
}

TEST_P(ConvertTest, RandomBitsConvertAsInTheReference) {
  Rng rng(11);
  std::vector<float> floats(100'003);
  std::vector<double> doubles(100'003);
  for (float& x : floats)
    x = std::bit_cast<float>(static_cast<std::uint32_t>(rng.next()));
  for (double& x : doubles)
    x = std::bit_cast<double>(rng.next());
  // Also doubles of a size that floats have.
  for (std::size_t i = 0; i < doubles.size(); i += 2)
    doubles[i] = static_cast<double>(floats[i]) * (1 + rng.uniform());
  doubles[3] = std::numeric_limits<double>::infinity();
  expect_agreement_for_all(floats, DType::f32);
  expect_agreement_for_all(doubles, DType::f64);
}

TEST_P(ConvertTest, OddSizesWriteNothingPastTheirEnd) {
  for (std::size_t count = 0; count <= 40; ++count) {
    const std::vector<float> from(count, 1.0F);
    std::vector<std::uint16_t> to(count + 1, 0xabcd);
    cpu_->convert(to.data(), DType::f16, from.data(), DType::f32, count);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(to[i], 0x3c00);
    ASSERT_EQ(to[count], 0xabcd) << count;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ConvertTest, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace kith::kernels
