#include "kith/kernels/int8.h"

#include <limits>

#include "kith/base/rng.h"
#include "kith/kernels/cpu/cpu_kernels.h"
#include "tests/kernels/agreement.h"
#include "tests/kernels/targets.h"

// The 8-bit wire, and sources that take part as their readers see them.

namespace kith::kernels {
namespace {

class Int8Test : public EachTarget {};

struct Wire {
  std::vector<std::int8_t> bytes;
  std::vector<float> scales;

  bool operator==(const Wire&) const = default;
};

Wire encode(Kernels<float>& kernels, const std::vector<float>& values) {
  Wire wire{std::vector<std::int8_t>(values.size()), std::vector<float>(int8_blocks(values.size()))};
  const Source source{values.data(), DType::f32, 1};
  kernels.mix({nullptr, wire.bytes.data(), DType::i8, wire.scales.data()}, {{&source, 1}}, values.size());
  return wire;
}

std::vector<float> decode(Kernels<float>& kernels, const Wire& wire) {
  std::vector<float> values(wire.bytes.size());
  const Source source{wire.bytes.data(), DType::i8, 1, wire.scales.data()};
  kernels.mix({values.data()}, {{&source, 1}}, values.size());
  return values;
}

std::vector<float> draw(std::size_t count, std::uint64_t seed) {
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

TEST_P(Int8Test, IsOffByHalfAScaleAtMostAndKeepsTheGreatest) {
  const auto cpu = make_cpu_kernels<float>();
  const std::vector<float> values = draw(1000, 1);
  const Wire wire = encode(*cpu, values);
  const std::vector<float> back = decode(*cpu, wire);
  for (std::size_t first = 0; first < values.size(); first += kInt8Block) {
    const float scale = wire.scales[first / kInt8Block];
    float greatest = 0;
    for (std::size_t i = first; i < std::min(first + kInt8Block, values.size()); ++i) {
      ASSERT_LE(std::fabs(back[i] - values[i]), 0.5001F * scale) << i;
      greatest = std::max(greatest, std::fabs(values[i]));
    }
    EXPECT_FLOAT_EQ(scale, greatest / 127);
  }
  EXPECT_EQ(encode(*cpu, back), wire) << "what was rounded once stays";
}

TEST_P(Int8Test, TravelsAsTheOwnerRoundedItself) {
  const auto cpu = make_cpu_kernels<float>();
  const std::vector<float> values = draw(1111, 2);
  const std::vector<float> back = decode(*cpu, encode(*cpu, values));
  std::vector<float> rounded(values.size());
  const Source source{values.data(), DType::f32, 1, nullptr, DType::i8};
  cpu->mix({rounded.data()}, {{&source, 1}}, values.size());
  EXPECT_EQ(rounded, back);
}

TEST_P(Int8Test, TiesRoundToEvenAndExtremesStayInRange) {
  const auto cpu = make_cpu_kernels<float>();
  const Wire wire = encode(*cpu, {127, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -127, 126.49F});
  EXPECT_EQ(wire.bytes, (std::vector<std::int8_t>{127, 0, 2, 2, 0, -2, -127, 126}));
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(encode(*cpu, {most, -most, most / 4}).bytes, (std::vector<std::int8_t>{127, -127, 32}));
}

TEST_P(Int8Test, NanPoisonsItsBlockAndTinyBlocksVanish) {
  const auto cpu = make_cpu_kernels<float>();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values = draw(300, 3);
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
    EXPECT_EQ(int8_scales_at(count) % alignof(float), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Int8Test, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace kith::kernels
