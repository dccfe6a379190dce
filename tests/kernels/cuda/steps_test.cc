#include "kith/base/rng.h"
#include "kith/kernels/cpu/cpu_kernels.h"
#include "kith/kernels/cuda/cuda_kernels.h"
#include "tests/kernels/agreement.h"
#include "tests/kernels/cuda/device_memory.h"
#include "tests/kernels/cuda/fresh_seed.h"

// The same problems and tolerances as for the CPU, with the memory on the GPU and inputs new in every run.

namespace kith::kernels {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i8};
constexpr DType kPlain[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
constexpr DType kEncodings[] = {DType::bf16, DType::f16, DType::i8};

class CudaStepsTest : public FreshSeed {
 protected:
  void expect_agreement_in_both(Shape shape) {
    expect_agreement(*floats_, shape, memory_);
    for (DType& type : shape.sources)
      type = type == DType::f32 ? DType::f64 : type;
    expect_agreement(*doubles_, shape, memory_);
  }

  const std::unique_ptr<Kernels<float>> floats_ = make_cuda_kernels<float>();
  const std::unique_ptr<Kernels<double>> doubles_ = make_cuda_kernels<double>();
  DeviceMemory memory_;
};

TEST_F(CudaStepsTest, AgreeWithTheReferenceForAnyNumberOfSources) {
  for (std::size_t k = 1; k <= 7; ++k)
    expect_agreement_in_both(
        {.count = 1027, .sources = std::vector(k, DType::f32), .seed = hash_words(seed_, k)});
  expect_agreement_in_both({.count = 300, .sources = std::vector(100, DType::f32), .seed = seed_});
}

TEST_F(CudaStepsTest, AgreeWithTheReferenceForOddSizesAndUnalignedSpans) {
  for (const std::size_t count : {1, 3, 31, 33, 127, 128, 129, 255, 256, 4095, 4097, 9001}) {
    for (const std::size_t offset : {0, 1, 2, 4}) {
      expect_agreement_in_both({.count = count,
                                .offset = offset,
                                .sources = {DType::f32, DType::f32},
                                .encoded = kEncodings[count % 3],
                                .seed = hash_words(seed_, count, offset)});
    }
  }
}

TEST_F(CudaStepsTest, AnEncodingInTheValuesOwnTypeIsACopy) {
  for (const std::size_t count : {33, 9001}) {
    for (const std::size_t offset : {0, 1}) {
      const std::uint64_t seed = hash_words(seed_, count, offset);
      expect_agreement(*floats_,
                       {.count = count,
                        .offset = offset,
                        .sources = {DType::f32, DType::f32},
                        .encoded = DType::f32,
                        .seed = seed},
                       memory_);
      expect_agreement(*doubles_,
                       {.count = count,
                        .offset = offset,
                        .sources = {DType::f64, DType::f64},
                        .encoded = DType::f64,
                        .seed = seed},
                       memory_);
    }
  }
}

TEST_F(CudaStepsTest, AgreeWithTheReferenceForEveryCombinationOfTypes) {
  std::size_t turn = 0;
  for (const DType self : kPlain) {
    for (const DType peer : kTypes) {
      for (const DType gradient : kPlain) {
        ++turn;
        expect_agreement_in_both({.count = 300,
                                  .offset = turn % 2,
                                  .sources = {self, peer},
                                  .gradient = gradient,
                                  .encoded = kEncodings[turn % 3],
                                  .seed = hash_words(seed_, turn),
                                  .rounded = kEncodings[turn / 3 % 3]});
      }
    }
  }
}

// On machines whose CPU has fused multiply-adds, both follow the same order of operations to the last bit.
TEST_F(CudaStepsTest, BitsAreThoseOfTheCpu) {
  const std::string target = cpu_target();
  ASSERT_TRUE(target == "AVX2" || target.starts_with("AVX3") || target == "NEON")
      << target << " has no fused multiply-adds; compare elsewhere";
  const auto cpu = make_cpu_kernels<float>();
  for (const DType wire : kEncodings) {
    const Shape shape{.count = 5000,
                      .sources = {DType::f32, wire},
                      .encoded = wire,
                      .seed = hash_words(seed_, wire),
                      .rounded = wire};
    for (const Step& step : all_steps()) {
      Problem<float> want(shape), got(shape);
      want.run(*cpu, step);
      got.run(*floats_, step, memory_);
      EXPECT_TRUE(want.bits() == got.bits()) << step.name << " " << describe(shape);
    }
  }
}

TEST_F(CudaStepsTest, ABatchGivesTheBitsOfItsPasses) {
  // More passes than one table takes, of different kinds and numbers of sources.
  const std::vector<Step> steps = all_steps();
  std::vector<Problem<float>> want, got;
  std::vector<std::vector<Source>> sources(200);
  std::vector<Pass<float>> passes;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Shape shape{.count = 1 + i * 53,
                      .sources = std::vector(1 + i % 4, DType::f32),
                      .encoded = kEncodings[i % 3],
                      .seed = hash_words(seed_, i)};
    want.emplace_back(shape);
  }
  got = want;
  for (std::size_t i = 0; i < sources.size(); ++i)
    want[i].run(*floats_, steps[i % steps.size()], memory_);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    passes.push_back(got[i].pass(steps[i % steps.size()], 0, got[i].shape().count, -1, memory_, sources[i]));
  }
  floats_->run(passes);
  memory_.leave();
  for (std::size_t i = 0; i < sources.size(); ++i)
    EXPECT_TRUE(want[i].bits() == got[i].bits()) << "pass " << i;
}

TEST_F(CudaStepsTest, MayWriteOverASource) {
  const Shape shape{.count = 9000,
                    .sources = {DType::f32, DType::f32},
                    .encoded = DType::i8,
                    .seed = seed_,
                    .rounded = DType::i8};
  for (const Step& step : all_steps()) {
    Problem<float> apart(shape), over(shape);
    apart.run(*floats_, step, memory_);
    std::vector<Source> sources;
    const Pass<float> pass = over.pass(step, 0, shape.count, 0, memory_, sources);
    floats_->run({&pass, 1});
    memory_.leave();
    EXPECT_TRUE(apart.bits() == over.bits(0)) << step.name;
  }
}

TEST_F(CudaStepsTest, AFactorOnTheDeviceMultipliesTheGradient) {
  const OnGpu<float> x(std::vector<float>(500, 1.0F)), g(std::vector<float>(500, 2.0F));
  const OnGpu<double> factor(std::vector<double>{0.125});
  const Source source{x.data(), DType::f32, 1};
  floats_->mix_sgd({x.data()}, {{&source, 1}}, {g.data(), DType::f32, 0.5, factor.data()}, nullptr, {.lr = 1},
                   500);
  EXPECT_EQ(x.back(), std::vector<float>(500, 1.0F - 0.125F));
}

// One element past 2^32 bytes: sizes are 64 bits wide.
TEST_F(CudaStepsTest, ReachesElementsPastFourGigabytes) {
  constexpr std::size_t kCount = (std::size_t{1} << 32) + 5;
  const auto bytes = cuda::allocate(2 * kCount);
  auto* const halves = reinterpret_cast<std::uint16_t*>(bytes.get());
  cuda::require(cudaMemset(halves, 0, 2 * kCount), "zeros");
  const std::uint16_t two = 0x4000;  // in bf16
  cuda::require(cudaMemcpy(halves + kCount - 1, &two, 2, cudaMemcpyHostToDevice), "a two");
  const auto to = cuda::allocate(2 * kCount);
  auto* const encoded = reinterpret_cast<std::uint16_t*>(to.get());
  const Source source{halves, DType::bf16, 0.5};
  floats_->mix({nullptr, encoded, DType::bf16}, {{&source, 1}}, kCount);
  std::uint16_t last[2] = {};
  cuda::require(cudaMemcpy(last, encoded + kCount - 2, 4, cudaMemcpyDeviceToHost), "the end");
  EXPECT_EQ(last[0], 0);
  EXPECT_EQ(last[1], 0x3f80);
}

}  // namespace
}  // namespace kith::kernels
