#include <bit>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "kith/base/check.h"
#include "kith/base/rng.h"
#include "kith/kernels/cuda/cuda_kernels.h"
#include "kith/kernels/half.h"
#include "kith/kernels/reference/reference_kernels.h"
#include "tests/kernels/cuda/device_memory.h"
#include "tests/kernels/cuda/fresh_seed.h"

namespace kith::kernels {
namespace {

class CudaReduceTest : public FreshSeed {};

template <class T>
std::vector<T> normals(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<T> made(count);
  for (T& x : made)
    x = static_cast<T>(rng.normal());
  return made;
}

template <class T>
void expect_norms(std::size_t count, std::size_t offset, std::uint64_t seed) {
  const auto a = normals<T>(count + offset, hash_words(seed, count));
  const auto b = normals<T>(count + offset, hash_words(seed, count + 1));
  const OnGpu<T> on_a(a), on_b(b);
  const auto cuda = make_cuda_kernels<T>();
  const Norms want = make_reference_kernels<T>()->norms(a.data() + offset, b.data() + offset, count);
  const Norms got = cuda->norms(on_a.data() + offset, on_b.data() + offset, count);
  EXPECT_NEAR(got.squared_norm, want.squared_norm, 1e-12 * want.squared_norm) << count;
  EXPECT_NEAR(got.squared_distance, want.squared_distance, 1e-12 * want.squared_distance) << count;
  const Norms again = cuda->norms(on_a.data() + offset, on_b.data() + offset, count);
  EXPECT_EQ(again.squared_norm, got.squared_norm);
  EXPECT_EQ(again.squared_distance, got.squared_distance);
  EXPECT_EQ(cuda->norms(on_a.data() + offset, nullptr, count).squared_distance, 0);
}

TEST_F(CudaReduceTest, NormsAgreeWithTheReference) {
  for (const std::size_t count : {0, 1, 127, 4097, 3'000'001}) {
    for (const std::size_t offset : {0, 1}) {
      expect_norms<float>(count, offset, seed_);
      expect_norms<double>(count, offset, seed_);
    }
  }
}

TEST_F(CudaReduceTest, ClippingStaysOnTheDevice) {
  const auto cuda = make_cuda_kernels<float>();
  const auto reference = make_reference_kernels<float>();
  // More vectors than one launch takes.
  std::vector<std::vector<float>> vectors;
  std::vector<OnGpu<float>> on_gpu;
  std::vector<Vector> host, device;
  for (std::size_t i = 0; i < 300; ++i) {
    vectors.push_back(normals<float>(i * 37, hash_words(seed_, i)));
    on_gpu.emplace_back(vectors.back());
  }
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    host.push_back({vectors[i].data(), DType::f32, vectors[i].size()});
    device.push_back({on_gpu[i].data(), DType::f32, vectors[i].size()});
  }
  double sum = 0, factor = 0;
  reference->sum_squares(host, &sum);
  reference->clip_factor(&sum, 100, &factor);
  const OnGpu<double> results(std::vector<double>{-1, -1});
  cuda->sum_squares(device, results.data());
  cuda->clip_factor(results.data(), 100, results.data() + 1);
  EXPECT_NEAR(results.back()[0], sum, 1e-12 * sum);
  EXPECT_NEAR(results.back()[1], factor, 1e-12);
  EXPECT_LT(factor, 0.2);
  cuda->clip_factor(results.data(), 1e9, results.data() + 1);
  EXPECT_EQ(results.back()[1], 1);
  cuda->sum_squares({}, results.data());
  EXPECT_EQ(results.back()[0], 0);
}

template <class T>
void expect_found(DType type, const std::vector<T>& plain, T odd, std::uint64_t seed) {
  const auto cuda = make_cuda_kernels<float>();
  const OnGpu<float> found(std::vector<float>{-1});
  Rng rng(seed);
  for (const std::size_t offset : {0, 1}) {
    for (int k = 0; k < 8; ++k) {
      std::vector<T> values = plain;
      const std::size_t place = offset + rng.below(values.size() - offset);
      values[place] = k % 2 == 0 ? odd : plain[place];
      const OnGpu<T> on_gpu(values), small(std::vector<T>(5, plain[0]));
      // More vectors than one launch takes; the one that matters is in the first, or in the last.
      std::vector<Vector> vectors(600, Vector{small.data(), type, 5});
      vectors[k < 4 ? 0 : 599] = {on_gpu.data() + offset, type, values.size() - offset};
      cuda->find_non_finite(vectors, found.data());
      EXPECT_EQ(found.back()[0], k % 2 == 0 ? 1 : 0)
          << name_of(type) << " at " << place << " from " << offset;
    }
  }
}

TEST_F(CudaReduceTest, FindsInfAndNanAndNothingElse) {
  constexpr std::size_t kCount = 3'000'001;
  expect_found<float>(DType::f32, std::vector<float>(kCount, -3e38F), HUGE_VALF, seed_);
  expect_found<double>(DType::f64, std::vector<double>(kCount, 1e308), std::nan(""), seed_ + 1);
  expect_found<std::uint16_t>(DType::bf16, std::vector<std::uint16_t>(kCount, 0x7f7f), 0xff80, seed_ + 2);
  expect_found<std::uint16_t>(DType::f16, std::vector<std::uint16_t>(kCount, 0x7bff), 0x7c01, seed_ + 3);
  const OnGpu<float> found(std::vector<float>{-1});
  make_cuda_kernels<double>()->find_non_finite({}, found.data());
  EXPECT_EQ(found.back()[0], 0);
}

template <class To, class From>
void expect_conversion(DType to_type, const std::vector<From>& from, DType from_type) {
  std::vector<To> want(from.size());
  make_reference_kernels<float>()->convert(want.data(), to_type, from.data(), from_type, from.size());
  const OnGpu<From> source(from);
  const OnGpu<To> to(std::vector<To>(from.size(), To{77}));
  make_cuda_kernels<float>()->convert(to.data(), to_type, source.data(), from_type, from.size());
  const std::vector<To> got = to.back();
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool both_nan = got[i] != got[i] && want[i] != want[i];
    ASSERT_TRUE(both_nan || std::memcmp(&got[i], &want[i], sizeof(To)) == 0)
        << name_of(from_type) << " to " << name_of(to_type) << " element " << i << ": " << got[i] << " vs "
        << want[i];
  }
}

template <class From>
void expect_conversions(const std::vector<From>& from, DType from_type) {
  expect_conversion<float>(DType::f32, from, from_type);
  expect_conversion<double>(DType::f64, from, from_type);
  expect_conversion<std::uint16_t>(DType::bf16, from, from_type);
  expect_conversion<std::uint16_t>(DType::f16, from, from_type);
}

TEST_F(CudaReduceTest, CastsGiveTheReferencesBits) {
  std::vector<std::uint16_t> halves(65536);
  std::vector<float> floats(100'003);
  std::vector<double> doubles(100'003);
  for (std::size_t i = 0; i < halves.size(); ++i)
    halves[i] = static_cast<std::uint16_t>(i);
  Rng rng(seed_);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    floats[i] = std::bit_cast<float>(static_cast<std::uint32_t>(rng.next()));
    doubles[i] = i % 2 == 0 ? std::bit_cast<double>(rng.next()) : floats[i] * (1 + rng.uniform());
  }
  expect_conversions(halves, DType::bf16);
  expect_conversions(halves, DType::f16);
  expect_conversions(floats, DType::f32);
  expect_conversions(doubles, DType::f64);
}

TEST_F(CudaReduceTest, MistakesAreBugs) {
  const auto cuda = make_cuda_kernels<float>();
  const OnGpu<float> x(std::vector<float>{1});
  const Source source{x.data(), DType::f32, 1};
  EXPECT_THROW(cuda->mix({x.data()}, Mix{}, 1), Bug);
  EXPECT_THROW(cuda->mix({}, {{&source, 1}}, 1), Bug);
  EXPECT_THROW(cuda->mix_sgd({x.data()}, {{&source, 1}}, {}, nullptr, {}, 1), Bug);
  EXPECT_THROW(cuda->convert(x.data(), DType::i8, x.data(), DType::f32, 1), Bug);
  EXPECT_NO_THROW(cuda->mix({}, {{&source, 1}}, 0));
  EXPECT_THROW(make_cuda_kernels<float>({.device = 99}), std::runtime_error);
  EXPECT_EQ(x.back(), std::vector<float>{1});
}

}  // namespace
}  // namespace kith::kernels
