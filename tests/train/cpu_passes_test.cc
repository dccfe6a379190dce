#include "kith/train/models/cpu_passes.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "kith/base/error.h"
#include "kith/kernels/cpu/model_loops.h"
#include "kith/train/compat.h"
#include "kith/train/cross_entropy.h"
#include "kith/train/models/gpt.h"
#include "kith/train/models/model.h"
#include "tests/train/support.h"

namespace kith::train {
namespace {

using testing::kSeed;

struct Derived {
  torch::Tensor value;
  torch::Tensor gradient;
};

// With a gradient of its own for every number of the value.
Derived derive(const torch::Tensor& x, const std::function<torch::Tensor(const torch::Tensor&)>& pass) {
  const torch::Tensor leaf = x.detach().clone().set_requires_grad(true);
  const torch::Tensor value = pass(leaf);
  const torch::Tensor slopes = torch::cos(torch::arange(value.numel(), value.options())).view(value.sizes());
  (value * slopes).sum().backward();
  return {value.detach().to(torch::kFloat64), leaf.grad().to(torch::kFloat64)};
}

void expect_same(const Derived& got, const Derived& want) {
  EXPECT_LT((got.value - want.value).abs().max().item<double>(), 1e-5);
  EXPECT_LT((got.gradient - want.gradient).abs().max().item<double>(), 3e-5);
}

torch::Tensor attention_of_torch(const torch::Tensor& query_key_value, std::int64_t heads) {
  const auto batch = query_key_value.size(0), length = query_key_value.size(1);
  const auto width = query_key_value.size(2) / 3;
  const auto split = [&](const torch::Tensor& t) {
    return t.reshape({batch, length, heads, width / heads}).transpose(1, 2);
  };
  const auto parts = query_key_value.chunk(3, /*dim=*/2);
  return compat::causal_attention(split(parts[0]), split(parts[1]), split(parts[2]), /*dropout=*/0)
      .transpose(1, 2)
      .reshape({batch, length, width});
}

TEST(CpuPasses, AttentionIsTorchsInDouble) {
  torch::manual_seed(kSeed);
  for (const std::int64_t length : {1, 7, 64, 65}) {
    for (const std::int64_t heads : {1, 3}) {
      const torch::Tensor x = torch::randn({2, length, 3 * 32 * heads});
      if (!fits_attention_on_cpu(x, heads)) {
        ASSERT_FALSE(kernels::select_model_loops().has_value());
        continue;
      }
      expect_same(derive(x, [&](const torch::Tensor& t) { return causal_attention_on_cpu(t, heads); }),
                  derive(x.to(torch::kFloat64),
                         [&](const torch::Tensor& t) { return attention_of_torch(t, heads); }));
    }
  }
}

TEST(CpuPasses, GeluIsTorchsInDouble) {
  torch::manual_seed(kSeed);
  const torch::Tensor x = 3 * torch::randn({37, 129});
  expect_same(derive(x, exact_gelu),
              derive(x.to(torch::kFloat64), [](const torch::Tensor& t) { return torch::gelu(t); }));
}

TEST(CpuPasses, TakeWhatTheyAreMadeFor) {
  EXPECT_FALSE(fits_attention_on_cpu(torch::zeros({1, 8, 3 * 32}, torch::kFloat64), 2));
  EXPECT_FALSE(fits_attention_on_cpu(torch::zeros({1, 8, 3 * 24}), 1));
  EXPECT_FALSE(fits_attention_on_cpu(torch::zeros({8, 3, 3 * 32}).transpose(0, 1), 2));
  EXPECT_FALSE(fits_attention_on_cpu(torch::zeros({1, 0, 3 * 32}), 2));
  EXPECT_EQ(fits_attention_on_cpu(torch::zeros({1, 8, 3 * 32}), 2),
            kernels::select_model_loops().has_value());
}

TEST(CpuPasses, SayThatTheyHaveNoSecondDerivative) {
  if (!kernels::select_model_loops()) return;
  const torch::Tensor x = torch::randn({5}).set_requires_grad(true);
  EXPECT_THROW(
      torch::autograd::grad({exact_gelu(x).sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true),
      InputError);
}

// In double a GPT goes through torch's own passes.
TEST(Gpt, HasTheGradientsOfItsDouble) {
  const GptOptions options{.layers = 2, .heads = 2, .width = 64, .context = 24, .vocabulary = 77};
  torch::manual_seed(kSeed);
  const auto model = make_gpt(options), twin = make_gpt(options);
  twin->to(torch::kFloat64);
  {
    const torch::NoGradGuard no_grad;
    for (const auto& parameter : model->named_parameters()) {
      parameter.value().mul_(5);  // attention that differs from position to position
      twin->named_parameters()[parameter.key()].copy_(parameter.value());
    }
  }
  const torch::Tensor tokens = torch::randint(77, {3, 20}, torch::kInt64);
  const torch::Tensor target = torch::randint(77, {60}, torch::kInt64);
  for (const auto& each : {model, twin})
    cross_entropy(each->forward(tokens), target).backward();
  for (const auto& parameter : model->named_parameters()) {
    const torch::Tensor want = twin->named_parameters()[parameter.key()].grad();
    const torch::Tensor off = parameter.value().grad().to(torch::kFloat64) - want;
    EXPECT_LT(off.norm().item<double>(), 1e-4 * want.norm().item<double>() + 1e-6) << parameter.key();
  }
}

}  // namespace
}  // namespace kith::train
