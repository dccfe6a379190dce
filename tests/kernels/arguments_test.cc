#include <gtest/gtest.h>

#include "kith/base/check.h"
#include "kith/kernels/cpu/cpu_kernels.h"
#include "kith/kernels/reference/reference_kernels.h"

namespace kith::kernels {
namespace {

void expect_checks(Kernels<float>& kernels) {
  float x = 1, g = 1, m = 0, v = 0, a = 0;
  const Source source{&x, DType::f32, 1};
  const Mix mix{{&source, 1}};
  const Destination<float> to{&x};
  EXPECT_THROW(kernels.mix(to, Mix{}, 1), Bug) << "no source";
  EXPECT_THROW(kernels.mix({}, mix, 1), Bug) << "no destination";
  EXPECT_THROW(kernels.mix({&x, &g, DType::f64}, mix, 1), Bug) << "an encoded type wider than the values";
  EXPECT_THROW(kernels.mix_sgd(to, mix, {}, nullptr, {}, 1), Bug) << "no gradient";
  EXPECT_THROW(kernels.mix_sgd(to, mix, {&g}, nullptr, {.momentum = 0.9}, 1), Bug) << "no momentum buffer";
  EXPECT_THROW(kernels.mix_sgd(to, mix, {&g}, &m, {.nesterov = true}, 1), Bug) << "Nesterov without momentum";
  EXPECT_THROW(kernels.mix_adam(to, mix, {&g}, &m, &v, {.step = 0}, 1), Bug) << "step 0";
  EXPECT_THROW(kernels.mix_accum_adam(to, mix, {&g}, &m, &v, &a, {{}, 0}, 1), Bug) << "commits every 0 steps";
  const Source bytes{&x, DType::i8, 1, DType::i8};
  EXPECT_THROW(kernels.mix(to, {{&bytes, 1}}, 1), Bug) << "an int8 source, rounded once more";
  const Source rounded{&x, DType::f32, 1, DType::f64};
  EXPECT_THROW(kernels.mix(to, {{&rounded, 1}}, 1), Bug) << "rounded to something wide";
  EXPECT_THROW(kernels.mix_sgd(to, mix, {&g, DType::i8}, nullptr, {}, 1), Bug) << "an int8 gradient";
  EXPECT_THROW(kernels.convert(&x, DType::f32, &g, DType::i8, 1), Bug) << "int8 has scales";
  EXPECT_EQ(x, 1) << "a refused call writes nothing";
}

TEST(ArgumentsTest, MistakesAreBugs) {
  expect_checks(*make_reference_kernels<float>());
  expect_checks(*make_cpu_kernels<float>());
  EXPECT_THROW(make_cpu_kernels<float>({.threads = 0}), Bug);
}

TEST(ArgumentsTest, NoElementsNeedNoMemory) {
  const auto kernels = make_cpu_kernels<double>();
  const Source nothing{nullptr, DType::f64, 1};
  const Mix mix{{&nothing, 1}};
  EXPECT_NO_THROW(kernels->mix({}, mix, 0));
  EXPECT_NO_THROW(kernels->mix_adam({}, mix, {}, nullptr, nullptr, {}, 0));
  EXPECT_NO_THROW(kernels->convert(nullptr, DType::bf16, nullptr, DType::f64, 0));
  EXPECT_EQ(kernels->norms(nullptr, nullptr, 0).squared_norm, 0);
}

}  // namespace
}  // namespace kith::kernels
