// All-reduce keeps the contract of DDP: gradients are the mean over the workers, and what is done to them
// counts.
#include <gmock/gmock.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include "kith/base/error.h"
#include "tests/support/failure.h"
#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::failure_of;
using support::Worker;
using ::testing::HasSubstr;

constexpr int kSyncWorkers = 3;

std::vector<double> gradients_of(const torch::nn::Module& module) {
  std::vector<double> all;
  for (const torch::Tensor& p : module.parameters()) {
    const torch::Tensor g = p.grad().cpu().to(torch::kFloat64).contiguous().reshape({-1});
    all.insert(all.end(), g.data_ptr<double>(), g.data_ptr<double>() + g.numel());
  }
  return all;
}

// The mean over the workers of the sum of their gradients of these batches, at the start.
std::vector<double> mean_by_hand(const std::vector<int>& batches) {
  std::vector<double> mean(start_values().size(), 0.0);
  for (int rank = 0; rank < kSyncWorkers; ++rank) {
    for (int batch : batches) {
      const auto g = plain::gradient(plain::Network{}, start_values(), batch_of(rank, batch));
      for (std::size_t e = 0; e < mean.size(); ++e)
        mean[e] += g[e] / kSyncWorkers;
    }
  }
  return mean;
}

Options all_reduce(const std::string& optimizer) {
  Options options = options_for("allreduce", optimizer);
  options.bucket_bytes = 100;
  return options;
}

TEST(SyncGradients, LeavesTheMeanInThem) {
  for (const std::vector<int>& batches : {std::vector<int>{0}, std::vector<int>{0, 1, 2}}) {
    support::run_threads(kSyncWorkers, [&](Worker& worker) {
      TestWorld here(worker);
      Network network = make_network();
      DecentralizedDataParallel model(network.ptr(), here.world, all_reduce("sgd"));
      model.zero_grad();
      for (std::size_t k = 0; k < batches.size(); ++k) {
        std::optional<DecentralizedDataParallel::NoSync> guard;
        if (k + 1 < batches.size()) guard.emplace(model);
        loss_of(network, batch_of(worker.rank, batches[k])).backward();
      }
      model.sync_gradients();
      EXPECT_LT(largest_difference(gradients_of(*network), mean_by_hand(batches)), 1e-13);
      model.sync_gradients();  // they stay what they are
      EXPECT_LT(largest_difference(gradients_of(*network), mean_by_hand(batches)), 1e-13);
      model.step();
      return std::string();
    });
  }
}

// torch's own clipping, then either kind of step: what one process with everybody's batch does.
TEST(SyncGradients, WhatIsDoneToThemCounts) {
  for (const char* optimizer : {"sgd", "external"}) {
    support::run_threads(kSyncWorkers, [&](Worker& worker) {
      TestWorld here(worker);
      Network network = make_network();
      Options options = all_reduce(optimizer);
      options.lr = 1;
      DecentralizedDataParallel model(network.ptr(), here.world, options);
      torch::optim::SGD own(network->parameters(), torch::optim::SGDOptions(1));
      for (int t = 0; t < 3; ++t) {
        const std::vector<double> before = flatten(*network);
        backward(model, network);
        model.sync_gradients();
        torch::nn::utils::clip_grad_norm_(network->parameters(), 1e-2);
        const std::vector<double> clipped = gradients_of(*network);
        if (options.optimizer == "sgd") {
          model.step();
        } else {
          model.step(own);
        }
        std::vector<double> expected = before;
        for (std::size_t e = 0; e < expected.size(); ++e)
          expected[e] -= clipped[e];
        EXPECT_LT(largest_difference(flatten(*network), expected), 1e-14) << optimizer << ", step " << t;
      }
      return to_bytes(flatten(*network));
    });
  }
}

TEST(SyncGradients, GivesOneToAParameterThatOnlyOthersUsed) {
  support::run_threads(2, [](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network();
    network->second->bias.set_requires_grad(false);
    DecentralizedDataParallel model(network.ptr(), here.world, all_reduce("sgd"));
    const torch::Tensor both = network->first->weight.sum();
    (worker.rank == 0 ? both : both + 4 * network->first->bias.sum()).backward();
    model.sync_gradients();
    EXPECT_EQ(network->first->weight.grad()[0][0].item<double>(), 1);
    EXPECT_EQ(network->first->bias.grad()[0].item<double>(), 2);
    EXPECT_FALSE(network->second->weight.grad().defined());  // nobody has one
    EXPECT_FALSE(network->second->bias.grad().defined());
    const std::vector<double> before = flatten(*network);
    model.step();
    EXPECT_NE(flatten(*network), before);
    return std::string();
  });
}

TEST(SyncGradients, IsNothingWhereGradientsStayOnesOwn) {
  support::run_threads(2, [](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network();
    DecentralizedDataParallel model(network.ptr(), here.world, options_for("awc", "sgd"));
    backward(model, network);
    const std::vector<double> before = gradients_of(*network);
    model.sync_gradients();
    EXPECT_EQ(gradients_of(*network), before);
    model.step();
    return std::string();
  });
}

TEST(SyncGradients, UnderNoSyncIsRefused) {
  Alone alone;
  Network network = make_network();
  DecentralizedDataParallel model(network.ptr(), alone.world(), all_reduce("sgd"));
  const auto guard = model.no_sync();
  EXPECT_THAT(failure_of<InputError>([&] { model.sync_gradients(); }), HasSubstr("no_sync()"));
}

}  // namespace
}  // namespace kith::train
