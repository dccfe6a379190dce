#include "kith/train/add_norm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "kith/train/compat.h"
#include "tests/train/support.h"

namespace kith::train {
namespace {

using testing::kSeed;
using testing::test_device;

struct Case {
  std::int64_t rows;
  std::int64_t width;
  bool has_delta;
  bool has_bias;
};

struct Numbers {
  torch::Tensor x, delta, weight, bias;  // undefined ones are left out
  torch::Tensor of_sum, of_normed;       // what comes after, as weights of a sum
};

Numbers draw(const Case& now) {
  torch::manual_seed(kSeed);
  Numbers n;
  n.x = 2 * torch::randn({now.rows, now.width}) + 0.5;
  if (now.has_delta) n.delta = torch::randn({now.rows, now.width}).to(torch::kBFloat16);
  n.weight = 1 + 0.3 * torch::randn({now.width});
  if (now.has_bias) n.bias = torch::randn({now.width});
  n.of_sum = torch::randn({now.rows, now.width});
  n.of_normed = torch::randn({now.rows, now.width});
  return n;
}

// The results, and the gradients of those inputs that there are.
using Results = std::vector<torch::Tensor>;

template <class Norm>
Results differentiate(const Numbers& from, torch::ScalarType type, torch::Device device, const Norm& norm) {
  const auto leaf = [&](const torch::Tensor& t, torch::ScalarType as) {
    return t.defined() ? t.to(device, as).clone().set_requires_grad(true) : torch::Tensor();
  };
  const bool is_double = type == torch::kFloat64;
  const torch::Tensor x = leaf(from.x, type), weight = leaf(from.weight, type), bias = leaf(from.bias, type),
                      delta = leaf(from.delta, is_double ? type : torch::kBFloat16);
  const AddNorm made = norm(x, delta, weight, bias);
  ((made.normed.to(type) * from.of_normed.to(device, type)).sum() +
   (made.sum * from.of_sum.to(device, type)).sum())
      .backward();
  Results results{made.sum, made.normed};
  for (const torch::Tensor& input : {x, delta, weight, bias})
    if (input.defined()) results.push_back(input.grad());
  for (torch::Tensor& result : results)
    result = result.detach().cpu().to(torch::kFloat64);
  return results;
}

AddNorm by_formula(const torch::Tensor& x, const torch::Tensor& delta, const torch::Tensor& weight,
                   const torch::Tensor& bias) {
  const torch::Tensor sum = delta.defined() ? x + delta : x;
  const torch::Tensor off = sum - sum.mean(-1, /*keepdim=*/true);
  const torch::Tensor normed = off / (off.pow(2).mean(-1, /*keepdim=*/true) + kNormEps).sqrt() * weight;
  return {sum, bias.defined() ? normed + bias : normed};
}

TEST(AddNorm, IsTheFormulaAndItsGradient) {
  for (const Case& now : {Case{1, 4, true, true}, Case{13, 32, false, true}, Case{2500, 256, true, false},
                          Case{77, 768, true, false}, Case{77, 768, true, true}, Case{9, 1000, false, false},
                          Case{40, 1280, true, true}, Case{5, 1600, true, true}, Case{6, 30, true, true}}) {
    const Numbers numbers = draw(now);
    const Results want = differentiate(numbers, torch::kFloat64, torch::kCPU, by_formula);
    const Results got = [&] {
      const compat::Autocast autocast(test_device().type(), torch::kBFloat16);
      return differentiate(numbers, torch::kFloat32, test_device(), add_norm);
    }();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      // A gradient in bf16 enters all others, and sums over rows add its errors up.
      const double scale = want[i].abs().max().item<double>();
      EXPECT_TRUE(torch::allclose(got[i], want[i], 1.0 / 100, scale / 200))
          << now.rows << "x" << now.width << ", result " << i << " is off by "
          << (got[i] - want[i]).abs().max().item<double>() << " of " << scale;
    }
  }
}

TEST(AddNorm, HasTheTypeThatAProductWantsOnAGpu) {
  const Numbers numbers = draw({8, 64, true, true});
  const compat::Autocast autocast(test_device().type(), torch::kBFloat16);
  const auto there = [](const torch::Tensor& t) { return t.to(test_device()); };
  const AddNorm made =
      add_norm(there(numbers.x), there(numbers.delta), there(numbers.weight), there(numbers.bias));
  EXPECT_EQ(made.sum.scalar_type(), torch::kFloat32);
  if (test_device().is_cuda()) EXPECT_EQ(made.normed.scalar_type(), torch::kBFloat16);
}

}  // namespace
}  // namespace kith::train
