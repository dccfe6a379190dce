// One worker, every algorithm: the same numbers as torch::optim.
#include <torch/optim.h>

#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;

constexpr int kAloneSteps = 200;
constexpr double kAloneLr = 5e-3, kDecay = 0.02, kMomentum = 0.9;

std::unique_ptr<torch::optim::Optimizer> torch_optimizer(const std::string& name,
                                                         std::vector<torch::Tensor> parameters) {
  if (name == "sgd") {
    return std::make_unique<torch::optim::SGD>(
        parameters, torch::optim::SGDOptions(kAloneLr).momentum(kMomentum).weight_decay(kDecay));
  }
  if (name == "adam" || name == "accum-adam") {
    return std::make_unique<torch::optim::Adam>(parameters,
                                                torch::optim::AdamOptions(kAloneLr).weight_decay(kDecay));
  }
  return std::make_unique<torch::optim::AdamW>(parameters,
                                               torch::optim::AdamWOptions(kAloneLr).weight_decay(kDecay));
}

std::vector<double> train_torch(const std::string& optimizer_name, torch::Dtype type) {
  Network network = make_network(type);
  const auto optimizer = torch_optimizer(optimizer_name, network->parameters());
  for (int t = 0; t < kAloneSteps; ++t) {
    optimizer->zero_grad();
    loss_of(network, batch_of(0, t)).backward();
    optimizer->step();
  }
  return flatten(*network);
}

class SingleWorker : public ::testing::TestWithParam<const char*> {};

void expect_equal_to_torch(const std::string& algorithm, torch::Dtype type, double tolerance) {
  for (const std::string optimizer : {"sgd", "adam", "adamw", "accum-adam", "accum-adamw"}) {
    Alone alone;
    Options options = options_for(algorithm, optimizer, algorithm == "sgp" ? "exp-directed" : "complete");
    options.lr = kAloneLr;
    options.weight_decay = kDecay;
    options.momentum = optimizer == "sgd" ? kMomentum : 0;
    options.commit_every = 1;  // where accumulation is Adam itself
    Network network = make_network(type);
    DecentralizedDataParallel model(network.ptr(), alone.world(), options);
    train_steps(model, network, kAloneSteps);
    EXPECT_EQ(model.steps(), kAloneSteps);
    EXPECT_LT(largest_difference(flatten(*network), train_torch(optimizer, type)), tolerance)
        << optimizer << ", seed " << kSeed;
  }
}

TEST_P(SingleWorker, EqualsTorchInDouble) {
  expect_equal_to_torch(GetParam(), torch::kFloat64, 1e-10);
}
TEST_P(SingleWorker, EqualsTorchInFloat) {
  expect_equal_to_torch(GetParam(), torch::kFloat32, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, SingleWorker,
                         ::testing::Values("awc", "atc", "dsgt", "sgp", "allreduce", "none"),
                         [](const auto& algorithm) { return std::string(algorithm.param); });

}  // namespace
}  // namespace kith::train
