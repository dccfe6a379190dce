#include "kith/kernels/half.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace kith::kernels {
namespace {

struct Format {
  const char* name;
  int exponent_bits;
  int mantissa_bits;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
  std::uint16_t (*narrow_double)(double);
};

constexpr Format kFormats[] = {
    {"bf16", 8, 7, float_from_bf16, bf16_from_float, bf16_from_double},
    {"f16", 5, 10, float_from_f16, f16_from_float, f16_from_double},
};

// The value of the bits by the definition of the format.
double value_of(const Format& format, unsigned bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
  const int mantissa = static_cast<int>(bits) & ((1 << format.mantissa_bits) - 1);
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const int leading = exponent == 0 ? 0 : 1 << format.mantissa_bits;
  return sign * std::ldexp(leading + mantissa, std::max(exponent, 1) - bias - format.mantissa_bits);
}

TEST(HalfTest, EveryValueWidensExactlyAndComesBack) {
  for (const Format& format : kFormats) {
    for (unsigned bits = 0; bits < 65536; ++bits) {
      const auto word = static_cast<std::uint16_t>(bits);
      const float wide = format.widen(word);
      if (std::isnan(value_of(format, bits))) {
        ASSERT_TRUE(std::isnan(wide)) << format.name << " " << bits;
        ASSERT_TRUE(std::isnan(format.widen(format.narrow(wide)))) << format.name << " " << bits;
        continue;
      }
      ASSERT_EQ(wide, value_of(format, bits)) << format.name << " " << bits;
      ASSERT_EQ(std::signbit(wide), bits >= 0x8000U) << format.name << " " << bits;
      ASSERT_EQ(format.narrow(wide), word) << format.name;
      ASSERT_EQ(format.narrow_double(wide), word) << format.name;
    }
  }
}

TEST(HalfTest, EveryTieRoundsToEvenAndItsNeighboursToTheNearest) {
  for (const Format& format : kFormats) {
    const unsigned infinity = static_cast<unsigned>((1 << format.exponent_bits) - 1) << format.mantissa_bits;
    for (unsigned low = 0; low < infinity; ++low) {
      const double below = value_of(format, low);
      // Past the largest value comes the power of two that it would round to.
      const double above =
          low + 1 == infinity ? 2 * below - value_of(format, low - 1) : value_of(format, low + 1);
      const double tie = (below + above) / 2;
      const unsigned even = low + (low & 1U);
      for (const double sign : {1.0, -1.0}) {
        const unsigned sign_bit = sign < 0 ? 0x8000U : 0U;
        ASSERT_EQ(format.narrow(static_cast<float>(sign * tie)), even | sign_bit)
            << format.name << " " << low;
        ASSERT_EQ(format.narrow_double(sign * tie), even | sign_bit) << format.name << " " << low;
        const float up = std::nextafter(static_cast<float>(tie), std::numeric_limits<float>::infinity());
        const float down = std::nextafter(static_cast<float>(tie), 0.0F);
        ASSERT_EQ(format.narrow(static_cast<float>(sign) * up), (low + 1) | sign_bit)
            << format.name << " " << low;
        ASSERT_EQ(format.narrow(static_cast<float>(sign) * down), low | sign_bit)
            << format.name << " " << low;
        // Too near to the tie for a float: rounding to float first would give `even`.
        const double just_up = std::nextafter(tie, std::numeric_limits<double>::infinity());
        const double just_down = std::nextafter(tie, 0.0);
        ASSERT_EQ(format.narrow_double(sign * just_up), (low + 1) | sign_bit) << format.name << " " << low;
        ASSERT_EQ(format.narrow_double(sign * just_down), low | sign_bit) << format.name << " " << low;
      }
    }
  }
}

TEST(HalfTest, LargeBecomesInfiniteAndTinyBecomesZero) {
  EXPECT_EQ(f16_from_float(65519.0F), 0x7bff);
  EXPECT_EQ(f16_from_float(65520.0F), 0x7c00);
  EXPECT_EQ(f16_from_float(1e30F), 0x7c00);
  EXPECT_EQ(f16_from_double(-1e300), 0xfc00);
  EXPECT_EQ(bf16_from_double(1e300), 0x7f80);
  EXPECT_EQ(bf16_from_float(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(f16_from_float(0x1.0p-25F), 0);
  EXPECT_EQ(f16_from_double(-1e-300), 0x8000);
  EXPECT_EQ(bf16_from_double(1e-300), 0);
}

}  // namespace
}  // namespace kith::kernels
