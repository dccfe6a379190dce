#include "kith/train/gradient_graphs.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "kith/train/cross_entropy.h"
#include "kith/train/models/gpt.h"
#include "kith/train/models/model.h"
#include "tests/train/support.h"

namespace kith::train {
namespace {

using testing::kSeed;
using testing::test_device;

struct Trial {
  std::shared_ptr<Model> model;
  std::vector<torch::Tensor> parameters;
  std::vector<Batch> batches;
};

Trial make_trial(std::int64_t batches) {
  torch::manual_seed(kSeed);
  Trial trial;
  trial.model = make_gpt({.layers = 2, .heads = 2, .width = 32, .context = 16, .vocabulary = 77});
  trial.model->to(test_device());
  trial.parameters = trial.model->parameters();
  for (std::int64_t i = 0; i < batches; ++i) {
    const torch::Tensor tokens = torch::randint(77, {4, 17}, torch::kInt64).to(test_device());
    trial.batches.push_back(
        {tokens.slice(1, 0, -1).contiguous(), tokens.slice(1, 1).reshape({-1}).contiguous()});
  }
  return trial;
}

torch::Tensor gradients_of(const Trial& trial) {
  std::vector<torch::Tensor> flat;
  for (const torch::Tensor& parameter : trial.parameters)
    flat.push_back(parameter.grad().detach().reshape({-1}).cpu());
  return torch::cat(flat);
}

// Without a GPU there is nothing to record, and whoever asks is told.
TEST(GradientGraphs, ARecordedPassIsThePass) {
  if (!test_device().is_cuda()) {
    EXPECT_NE(graphs_obstacle(test_device()), "");
    EXPECT_EQ(own_stream(test_device()), nullptr);
    return;
  }
  ASSERT_EQ(graphs_obstacle(test_device()), "");
  const auto stream = own_stream(test_device());
  Trial trial = make_trial(7);
  const auto forward = [&](const Batch& batch) {
    return cross_entropy(trial.model->forward(batch.input), batch.target);
  };
  GradientGraphs graphs(trial.parameters, forward);
  for (std::size_t i = 0; i < trial.batches.size(); ++i) {
    trial.model->zero_grad();
    const torch::Tensor want_loss = 0.5 * forward(trial.batches[i]);
    want_loss.backward();
    const torch::Tensor want = gradients_of(trial);
    trial.model->zero_grad();
    const double got_loss = graphs.run(trial.batches[i], 0.5).item<double>();
    EXPECT_NEAR(got_loss, want_loss.item<double>(), 1e-5) << i;
    EXPECT_TRUE(torch::allclose(gradients_of(trial), want, 1e-4, 1e-6)) << i;
    // Two passes of a step add up, also when both are the same recording.
    graphs.run(trial.batches[i], 0.5);
    EXPECT_TRUE(torch::allclose(gradients_of(trial), 2 * want, 1e-4, 1e-6)) << i;
    // The model of the next pass is another.
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : trial.parameters)
      parameter.sub_(0.1 * parameter.grad());
  }
}

}  // namespace
}  // namespace kith::train
