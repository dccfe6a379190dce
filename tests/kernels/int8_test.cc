#include "kith/kernels/int8.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "kith/base/rng.h"
#include "kith/kernels/cpu/cpu_kernels.h"
#include "tests/kernels/agreement.h"
#include "tests/kernels/targets.h"

// The 8-bit wire, and sources that take part as their readers see them.

namespace kith::kernels {
namespace {

class Int8Test : public EachTarget {};

// A vector on the wire, block by block.
struct Wire {
  std::size_t count = 0;
  std::vector<std::byte> bytes;

  std::int8_t code(std::size_t i) const {
    return static_cast<std::int8_t>(bytes[i / kInt8Block * kInt8BlockBytes + i % kInt8Block]);
  }
  float scale(std::size_t block) const {
    float scale = 0;
    std::memcpy(&scale, bytes.data() + block * kInt8BlockBytes + kInt8Block, sizeof(scale));
    return scale;
  }
  bool operator==(const Wire&) const = default;
};

Wire encode(Kernels<float>& kernels, const std::vector<float>& values, std::uint64_t draw = 5) {
  Wire wire{values.size(), std::vector<std::byte>(bytes_of(DType::i8, values.size()), std::byte{0x55})};
  const Source source{values.data(), DType::f32, 1};
  kernels.mix({nullptr, wire.bytes.data(), DType::i8, draw}, {{&source, 1}}, values.size());
  return wire;
}

std::vector<float> decode(Kernels<float>& kernels, const Wire& wire) {
  std::vector<float> values(wire.count);
  const Source source{wire.bytes.data(), DType::i8, 1};
  kernels.mix({values.data()}, {{&source, 1}}, values.size());
  return values;
}

std::vector<float> normals(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& x : values)
    x = static_cast<float>(rng.normal());
  return values;
}

TEST_P(Int8Test, AgreesWithTheReferenceInEveryStep) {
  Memory here;
  const auto floats = make_cpu_kernels<float>();
  const auto doubles = make_cpu_kernels<double>();
  for (const std::size_t count : {1, 127, 128, 129, 1024, 2500}) {
    for (const DType wire : {DType::bf16, DType::f16, DType::i8}) {
      const Shape shape{.count = count,
                        .offset = count % 3,
                        .sources = {DType::f32, DType::i8, wire},
                        .encoded = wire,
                        .seed = count,
                        .rounded = wire};
      expect_agreement(*floats, shape, here);
      expect_agreement(*doubles, shape, here);
    }
  }
}

TEST_P(Int8Test, IsOffByAScaleAtMostWhichHasThreeBitsAndHoldsTheGreatest) {
  const auto cpu = make_cpu_kernels<float>();
  const std::vector<float> values = normals(1000, 1);
  const Wire wire = encode(*cpu, values);
  const std::vector<float> back = decode(*cpu, wire);
  for (std::size_t first = 0; first < values.size(); first += kInt8Block) {
    const float scale = wire.scale(first / kInt8Block);
    float greatest = 0;
    for (std::size_t i = first; i < std::min(first + kInt8Block, values.size()); ++i) {
      ASSERT_LT(std::fabs(back[i] - values[i]), 1.0001F * scale) << i;
      greatest = std::max(greatest, std::fabs(values[i]));
    }
    EXPECT_GE(scale * 1.0001F, greatest / 126);
    EXPECT_LE(scale, greatest / 126 * 1.126F);
    int exponent = 0;
    const float mantissa = std::frexp(scale, &exponent) * 16;  // 8 to 16
    EXPECT_EQ(mantissa, std::floor(mantissa));
  }
}

// Every element lands on one of two codes, on each as often as the other is near.
TEST_P(Int8Test, HasTheValuesAsItsMeanOverDraws) {
  const auto cpu = make_cpu_kernels<float>();
  const std::vector<float> values = normals(300, 7);
  std::vector<double> sum(values.size());
  constexpr int kDraws = 4000;
  for (int t = 0; t < kDraws; ++t) {
    const std::vector<float> back = decode(*cpu, encode(*cpu, values, hash_words(3, t)));
    for (std::size_t i = 0; i < values.size(); ++i)
      sum[i] += back[i];
  }
  const Wire wire = encode(*cpu, values);
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    worst = std::max(worst, std::fabs(sum[i] / kDraws - values[i]) / wire.scale(i / kInt8Block));
  // Half a quantum's deviation over sqrt(4000) is 0.008 of one; the largest of 300 lies within five of them.
  // To the nearest it would be 0.5.
  EXPECT_LT(worst, 0.04);
  EXPECT_GT(worst, 0.001) << "it is a mean over draws";
}

// Note [Dither]: with the same draws the difference of two codes has an error that vanishes with the
// distance; with other draws it does not.
TEST_P(Int8Test, SharedDrawsMakeNearVectorsNearOnTheWire) {
  const auto cpu = make_cpu_kernels<float>();
  const std::vector<float> a = normals(12'800, 9);
  std::vector<float> b = a;
  const float quantum = encode(*cpu, a).scale(0);
  for (std::size_t i = 0; i < b.size(); ++i)
    b[i] += (i % 2 == 0 ? 0.01F : -0.01F) * quantum;
  const auto error = [&](std::uint64_t draw_of_b) {
    const std::vector<float> qa = decode(*cpu, encode(*cpu, a, 5)),
                             qb = decode(*cpu, encode(*cpu, b, draw_of_b));
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      sum += std::pow((qb[i] - qa[i] - (b[i] - a[i])) / quantum, 2);
    return sum / static_cast<double>(a.size());
  };
  EXPECT_LT(error(5), 0.05) << "about 0.01, and blocks whose scales differ";
  EXPECT_GT(error(6), 0.2);
}

TEST_P(Int8Test, TravelsAsTheOwnerRoundedItself) {
  const auto cpu = make_cpu_kernels<float>();
  const std::vector<float> values = normals(1111, 2);
  const std::vector<float> back = decode(*cpu, encode(*cpu, values, 11));
  std::vector<float> rounded(values.size());
  const Source source{values.data(), DType::f32, 1, DType::i8, 11};
  cpu->mix({rounded.data()}, {{&source, 1}}, values.size());
  EXPECT_EQ(rounded, back);
}

TEST_P(Int8Test, ExtremesStayInRangeAndShortBlocksAreFilledUp) {
  const auto cpu = make_cpu_kernels<float>();
  const float most = std::numeric_limits<float>::max();
  for (std::uint64_t draw = 0; draw < 2000; ++draw) {
    const Wire wire = encode(*cpu, {most, -most, most / 4}, draw);
    ASSERT_GE(wire.code(0), 112);
    ASSERT_LE(wire.code(1), -112);
    for (std::size_t i = 3; i < kInt8Block; ++i)
      ASSERT_EQ(wire.code(i), 0);
  }
}

TEST_P(Int8Test, NanPoisonsItsBlockAndTinyBlocksVanish) {
  const auto cpu = make_cpu_kernels<float>();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values = normals(300, 3);
    values[130] = bad;
    const std::vector<float> back = decode(*cpu, encode(*cpu, values));
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(std::isnan(back[i]), i / kInt8Block == 1) << i;
  }
  const std::vector<float> tiny(200, 1e-37F);
  EXPECT_EQ(decode(*cpu, encode(*cpu, tiny)), std::vector<float>(200, 0.0F));
}

TEST_P(Int8Test, BitsDependNeitherOnCutsAtBlocksNorOnThreads) {
  const Shape shape{.count = 3 * 32768 + 77,
                    .sources = {DType::f32, DType::i8},
                    .encoded = DType::i8,
                    .rounded = DType::i8};
  const auto one = make_cpu_kernels<float>({.stream_from_bytes = 1});
  const auto many = make_cpu_kernels<float>({.threads = 3});
  const Problem<float> start(shape);
  const Step step = all_steps().back();
  Problem<float> whole = start, threads = start, pieces = start, over = start;
  whole.run(*one, step);
  threads.run(*many, step);
  pieces.run(*one, step, 0, 5 * kInt8Block);
  pieces.run(*one, step, 5 * kInt8Block, shape.count);
  over.run(*one, step, 0, shape.count, 0);
  EXPECT_TRUE(whole.bits() == threads.bits());
  EXPECT_TRUE(whole.bits() == pieces.bits());
  EXPECT_TRUE(whole.bits() == over.bits(0)) << "written over a source";
}

TEST(Int8PayloadTest, IsMoreThanThreeAndAHalfTimesSmaller) {
  for (const std::size_t count : {1024, 10'000, 124'439'808}) {
    EXPECT_GE(4.0 * static_cast<double>(count) / static_cast<double>(int8_bytes(count)), 3.5) << count;
    EXPECT_GE(4.0 * static_cast<double>(count) / static_cast<double>(bytes_of(DType::i8, count)), 3.5)
        << count;
    EXPECT_EQ(int8_scales_at(count) % alignof(float), 0u);
  }
  EXPECT_EQ(bytes_of(DType::i8, 1), 132u);
  EXPECT_EQ(bytes_of(DType::i8, 256), 264u);
}

INSTANTIATE_TEST_SUITE_P(Targets, Int8Test, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace kith::kernels
