#include "kith/train/cross_entropy.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "kith/train/compat.h"
#include "kith/train/models/gpt.h"
#include "kith/train/models/model.h"
#include "tests/train/support.h"

namespace kith::train {
namespace {

using testing::kSeed;
using testing::test_device;

struct Result {
  torch::Tensor loss;
  torch::Tensor gradient;
};

// Of 3 times the loss: the gradient of what comes after counts.
Result differentiate(const torch::Tensor& scores,
                     const std::function<torch::Tensor(const torch::Tensor&)>& loss) {
  const torch::Tensor leaf = scores.detach().clone().set_requires_grad(true);
  const torch::Tensor value = loss(leaf);
  (3 * value).backward();
  return {value.detach().cpu().to(torch::kFloat64), leaf.grad().cpu().to(torch::kFloat64)};
}

void expect_agreement(torch::ScalarType type, double precision) {
  torch::manual_seed(kSeed);
  const std::int64_t rows = 37, classes = 1003;  // rows that begin anywhere
  const torch::Tensor scores = (4 * torch::randn({rows, classes})).to(type).to(test_device());
  const torch::Tensor target = torch::randint(classes, {rows}, torch::kInt64).to(test_device());
  const Result got = differentiate(scores, [&](const torch::Tensor& s) { return cross_entropy(s, target); });
  const Result want = differentiate(scores.to(torch::kFloat64), [&](const torch::Tensor& s) {
    return -torch::log_softmax(s, 1).gather(1, target.unsqueeze(1)).mean();
  });
  EXPECT_NEAR(got.loss.item<double>(), want.loss.item<double>(), 1e-5) << type;
  EXPECT_TRUE(torch::allclose(got.gradient, want.gradient, precision, 1e-7))
      << type << ", off by " << (got.gradient - want.gradient).abs().max().item<double>();
}

TEST(CrossEntropy, IsThatOfTheFormulaInEveryType) {
  expect_agreement(torch::kFloat64, 1e-5);
  expect_agreement(torch::kFloat32, 1e-4);
  expect_agreement(torch::kBFloat16, 1.0 / 200);
}

TEST(CrossEntropy, TakesScoresThatAreNotContiguous) {
  torch::manual_seed(kSeed);
  const torch::Tensor scores = torch::randn({11, 6}).to(test_device());
  const torch::Tensor target = torch::randint(11, {6}, torch::kInt64).to(test_device());
  const torch::Tensor turned = scores.t();
  EXPECT_NEAR(cross_entropy(turned, target).item<double>(),
              cross_entropy(turned.contiguous(), target).item<double>(), 1e-5);
}

TEST(Gpt, HasTheParametersOfGpt2Small) {
  const auto model =
      make_gpt({.layers = 12, .heads = 12, .width = 768, .context = 1024, .vocabulary = 50257});
  EXPECT_EQ(parameter_count(*model), 124'439'808);
}

TEST(Gpt, LearnsUnderAutocast) {
  torch::manual_seed(kSeed);
  const auto model = make_gpt({.layers = 2, .heads = 2, .width = 32, .context = 16, .vocabulary = 77});
  model->to(test_device());
  const torch::Tensor tokens = torch::randint(77, {4, 17}, torch::kInt64).to(test_device());
  const torch::Tensor x = tokens.slice(1, 0, -1), y = tokens.slice(1, 1).reshape({-1});
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  const auto loss_now = [&] {
    const compat::Autocast autocast(test_device().type(), torch::kBFloat16);
    const torch::Tensor scores = model->forward(x);
    EXPECT_EQ(scores.sizes(), torch::IntArrayRef({64, 77}));
    return cross_entropy(scores, y);
  };
  const double first = loss_now().item<double>();
  EXPECT_NEAR(first, std::log(77), 0.3);
  for (int i = 0; i < 20; ++i) {
    optimizer.zero_grad();
    loss_now().backward();
    optimizer.step();
  }
  EXPECT_LT(loss_now().item<double>(), 0.5 * first);
}

}  // namespace
}  // namespace kith::train
