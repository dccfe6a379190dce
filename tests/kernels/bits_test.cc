#include <cmath>
#include <cstring>

#include "kith/base/rng.h"
#include "kith/kernels/cpu/cpu_kernels.h"
#include "kith/kernels/half.h"
#include "tests/kernels/problem.h"
#include "tests/kernels/targets.h"

// The bits of a result depend on nothing but its inputs.

namespace kith::kernels {
namespace {

template <class T>
Shape two_of(std::size_t count) {
  return {.count = count,
          .offset = 1,
          .sources = {dtype_of<T>(), dtype_of<T>()},
          .gradient = dtype_of<T>(),
          .encoded = DType::bf16};
}

class BitsTest : public EachTarget {
 protected:
  template <class T>
  void expect_no_effect_of_cuts(const Shape& shape, const std::vector<std::size_t>& cuts) {
    const auto cpu = make_cpu_kernels<T>();
    const Problem<T> start(shape);
    for (const Step& step : all_steps()) {
      Problem<T> whole = start;
      Problem<T> pieces = start;
      whole.run(*cpu, step);
      std::size_t begin = 0;
      for (const std::size_t cut : cuts) {
        pieces.run(*cpu, step, begin, cut);
        begin = cut;
      }
      pieces.run(*cpu, step, begin, shape.count);
      EXPECT_TRUE(whole.bits() == pieces.bits()) << step.name << " " << describe(shape);
    }
  }
};

TEST_P(BitsTest, DoNotDependOnWhereARangeIsCut) {
  for (std::size_t cut = 0; cut <= 41; ++cut) {
    expect_no_effect_of_cuts<float>(two_of<float>(41), {cut});
    expect_no_effect_of_cuts<double>(two_of<double>(41), {cut});
  }
  std::vector<std::size_t> everywhere;
  for (std::size_t cut = 1; cut < 83; ++cut)
    everywhere.push_back(cut);
  expect_no_effect_of_cuts<float>(two_of<float>(83), everywhere);
  expect_no_effect_of_cuts<double>(two_of<double>(83), everywhere);
}

TEST_P(BitsTest, DoNotDependOnStreaming) {
  const auto cached = make_cpu_kernels<float>();
  const auto streamed = make_cpu_kernels<float>({.stream_from_bytes = 1});
  for (const std::size_t count : {1, 3, 16, 17, 131, 1000}) {
    for (const std::size_t offset : {0, 1, 7}) {
      Shape shape = two_of<float>(count);
      shape.offset = offset;
      const Problem<float> start(shape);
      for (const Step& step : all_steps()) {
        Problem<float> want = start;
        Problem<float> got = start;
        want.run(*cached, step);
        got.run(*streamed, step);
        EXPECT_TRUE(want.bits() == got.bits()) << step.name << " " << describe(shape);
      }
    }
  }
}

TEST_P(BitsTest, DoNotDependOnTheNumberOfThreads) {
  const auto one = make_cpu_kernels<float>();
  for (const int threads : {3, 8}) {
    const auto many = make_cpu_kernels<float>({.threads = threads, .stream_from_bytes = 1});
    const Problem<float> start(two_of<float>(static_cast<std::size_t>(threads) * 32768 + 7));
    const std::vector<Step> steps = all_steps();
    for (std::size_t i = 0; i < steps.size(); i += static_cast<std::size_t>(threads) - 2) {
      Problem<float> want = start;
      Problem<float> got = start;
      want.run(*one, steps[i]);
      got.run(*many, steps[i]);
      EXPECT_TRUE(want.bits() == got.bits()) << steps[i].name << " with " << threads << " threads";
    }
  }
}

TEST_P(BitsTest, DoNotDependOnWritingOverASource) {
  constexpr std::size_t kCount = 261;
  const auto cpu = make_cpu_kernels<float>({.stream_from_bytes = 1});
  const Problem<float> start(two_of<float>(kCount));
  for (const Step& step : all_steps()) {
    Problem<float> apart = start;
    apart.run(*cpu, step);
    for (const int destination : {0, 1}) {
      Problem<float> over = start;
      over.run(*cpu, step, 0, kCount, destination);
      EXPECT_TRUE(apart.bits() == over.bits(destination)) << step.name << " over source " << destination;
    }
  }
}

// Multiples of 1/64 below 2 are exact in every type.
TEST_P(BitsTest, DoNotDependOnTheTypeThatCarriesAnExactValue) {
  constexpr std::size_t kCount = 45;
  constexpr DType kTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
  const auto cpu = make_cpu_kernels<float>();
  std::vector<float> exact(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    exact[i] = static_cast<float>(i) / 64 - 0.25F;
  std::vector<std::vector<float>> results;
  for (const DType type : kTypes) {
    std::vector<double> carrier(kCount);
    cpu->convert(carrier.data(), type, exact.data(), DType::f32, kCount);
    const Source sources[] = {{exact.data(), DType::f32, 0.3}, {carrier.data(), type, 0.7}};
    std::vector<float> m(kCount, 0.1F), v(kCount, 0.2F), to(kCount);
    cpu->mix_adam({to.data()}, {sources}, {carrier.data(), type}, m.data(), v.data(), {.lr = 0.1}, kCount);
    results.push_back(to);
  }
  for (const auto& result : results)
    EXPECT_EQ(result, results.front());
}

TEST_P(BitsTest, FollowTheStatedOrderOfAdditions) {
  const auto cpu = make_cpu_kernels<float>();
  Rng rng(7);
  for (std::size_t k = 1; k <= 6; ++k) {
    std::vector<float> x(k);
    std::vector<Source> sources;
    for (float& value : x)
      value = static_cast<float>(rng.normal());
    for (float& value : x)
      sources.push_back({&value, DType::f32, rng.uniform()});
    float got = 0;
    cpu->mix({&got}, {sources, 1.0 / 3}, 1);
    float fused = static_cast<float>(sources[0].weight) * x[0];
    volatile float apart = fused;
    for (std::size_t j = 1; j < k; ++j) {
      const float weight = static_cast<float>(sources[j].weight);
      const volatile float product = weight * x[j];
      fused = std::fma(weight, x[j], fused);
      apart = product + apart;
    }
    const float third = static_cast<float>(1.0 / 3);
    EXPECT_TRUE(got == third * fused || got == third * apart) << k << " sources: " << got;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, BitsTest, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace kith::kernels
