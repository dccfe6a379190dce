// Gradients inside, models outside: Options::inside.
#include <chrono>
#include <cmath>
#include <thread>

#include <gmock/gmock.h>

#include "kith/train/checkpoint.h"
#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;
using ::testing::HasSubstr;

constexpr int kInsideWorkers = 4, kSize = 2;

Options inside(const std::string& algorithm, const std::string& topology = "complete") {
  Options options = options_for(algorithm, "adamw", topology);
  options.inside = "allreduce";
  options.nodes = "2x2";
  options.lr = 1e-2;
  return options;
}

// Two workers that have the batches of a node each.
std::vector<std::vector<double>> train_nodes(const std::string& algorithm, int steps) {
  std::vector<std::vector<double>> models(kInsideWorkers / kSize);
  support::run_threads(kInsideWorkers / kSize, [&](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network();
    Options options = inside(algorithm);
    options.inside = "none";
    options.nodes = {};
    DecentralizedDataParallel model(network.ptr(), here.world, options);
    for (int t = 0; t < steps; ++t) {
      model.zero_grad();
      torch::Tensor loss = loss_of(network, batch_of(kSize * worker.rank, t));
      for (int place_in_node = 1; place_in_node < kSize; ++place_in_node)
        loss = loss + loss_of(network, batch_of(kSize * worker.rank + place_in_node, t));
      (loss / kSize).backward();
      model.step();
    }
    models[static_cast<std::size_t>(worker.rank)] = flatten(*network);
    return std::string();
  });
  return models;
}

TEST(Inside, ANodeIsAWorkerWithTheBatchesOfAll) {
  constexpr int kSteps = 12;
  for (const char* algorithm : {"awc", "atc", "dsgt", "none"}) {
    const auto nodes = train_nodes(algorithm, kSteps);
    const auto workers = train_world("inproc", kInsideWorkers, inside(algorithm), kSteps);
    for (int rank = 0; rank < kInsideWorkers; ++rank) {
      const auto& model = workers[static_cast<std::size_t>(rank)];
      EXPECT_LT(largest_difference(model, nodes[static_cast<std::size_t>(rank / kSize)]), 1e-10)
          << algorithm << ", worker " << rank;
      EXPECT_EQ(model, workers[static_cast<std::size_t>(rank / kSize * kSize)]) << algorithm;
    }
  }
}

TEST(Inside, SyncedGradientsAreTheMeanOfTheNode) {
  std::vector<std::vector<double>> own(kInsideWorkers), synced(kInsideWorkers);
  support::run_threads(kInsideWorkers, [&](Worker& worker) {
    TestWorld here(worker);
    const auto rank = static_cast<std::size_t>(worker.rank);
    Network network = make_network();
    loss_of(network, batch_of(worker.rank, 0)).backward();
    const auto gradient = [&] {
      const torch::Tensor g = network->second->bias.grad().detach().cpu();
      return std::vector<double>(g.data_ptr<double>(), g.data_ptr<double>() + g.numel());
    };
    own[rank] = gradient();
    DecentralizedDataParallel model(network.ptr(), here.world, inside("awc"));
    backward(model, network);
    model.sync_gradients();
    synced[rank] = gradient();
    model.step();
    return std::string();
  });
  for (std::size_t rank = 0; rank < kInsideWorkers; ++rank) {
    const std::size_t first = rank / kSize * kSize;
    for (std::size_t k = 0; k < own[rank].size(); ++k)
      EXPECT_NEAR(synced[rank][k], (own[first][k] + own[first + 1][k]) / 2, 1e-14);
  }
}

// Every worker measures on its own batch; a node steps by one set of rates.
TEST(Inside, RatesForNoisyGradientsAreTheNodes) {
  std::vector<double> factors(kInsideWorkers), shares(kInsideWorkers);
  const auto models = support::run_threads(kInsideWorkers, [&](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network(torch::kFloat32);
    Options options = inside("awc", "ring-static");
    options.wire = DType::bf16;
    DecentralizedDataParallel model(network.ptr(), here.world, options);
    EXPECT_TRUE(model.corrects_noise());
    for (int t = 0; t < 6; ++t) {
      model.zero_grad();
      {
        const auto guard = model.no_sync();
        loss_of(network, batch_of(worker.rank, 2 * t)).backward();
      }
      if (t % 2 == 0) model.measure_noise();
      loss_of(network, batch_of(worker.rank, 2 * t + 1)).backward();
      if (t == 2) model.sync_gradients();
      model.step({.gradient_scale = 0.5});
    }
    factors[static_cast<std::size_t>(worker.rank)] = model.rate_factor("first.weight");
    shares[static_cast<std::size_t>(worker.rank)] = model.noise_share();
    return to_bytes(flatten(*network));
  });
  for (std::size_t rank = 0; rank < kInsideWorkers; ++rank) {
    const std::size_t first = rank / kSize * kSize;
    EXPECT_EQ(models[rank], models[first]);
    EXPECT_EQ(factors[rank], factors[first]);
    EXPECT_EQ(shares[rank], shares[first]);
    EXPECT_GT(factors[rank], 1);
    EXPECT_LE(factors[rank], std::sqrt(2) + 1e-12) << "nodes of two have half of the noise of one worker";
  }
  EXPECT_NE(shares[0], shares[kSize]);
}

// Some of a node may have taken a measurement that others have not, when one of them dies.
TEST(Inside, ANodeHasOneModelAndOneSetOfRatesAfterADeath) {
  constexpr int kWorkers = 5;
  std::vector<double> factors(kWorkers);
  const auto models = support::run_threads(kWorkers, [&](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network(torch::kFloat32);
    Options options = inside("awc", "ring-static");
    options.nodes = "3,2";
    DecentralizedDataParallel model(network.ptr(), here.world, options);
    model.barrier();  // everybody has the first model
    const auto steps = [&](int until) {
      while (model.steps() < until) {
        model.zero_grad();
        {
          const auto guard = model.no_sync();
          loss_of(network, batch_of(worker.rank, static_cast<int>(2 * model.steps()))).backward();
        }
        model.measure_noise();
        loss_of(network, batch_of(worker.rank, static_cast<int>(2 * model.steps() + 1))).backward();
        model.step({.gradient_scale = 0.5});
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    };
    steps(6);
    if (worker.rank == 1) support::die(worker);
    steps(40);
    EXPECT_EQ(model.world().size(), kWorkers - 1);
    factors[static_cast<std::size_t>(worker.rank)] = model.rate_factor("first.weight");
    return to_bytes(flatten(*network));
  });
  EXPECT_EQ(models[0], models[2]);
  EXPECT_EQ(models[3], models[4]);
  EXPECT_EQ(factors[0], factors[2]);
  EXPECT_EQ(factors[3], factors[4]);
  EXPECT_GT(factors[0], 1);
}

std::vector<std::string> train_on(const Options& options, int steps, const std::filesystem::path& save_to) {
  return support::run_threads(kInsideWorkers, [&](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network(torch::kFloat32);
    DecentralizedDataParallel model(network.ptr(), here.world, options);
    train_steps(model, network, steps);
    if (!save_to.empty()) save_checkpoint(model, {save_to});
    return to_bytes(flatten(*network));
  });
}

TEST(Inside, ResumeIsBitIdenticalToNeverHavingStopped) {
  const support::TempFolder folder;
  Options options = inside("awc", "aer");
  const auto whole = train_on(options, 10, {});
  train_on(options, 6, folder.path());
  options.resume_from = checkpoint_path(folder.path(), 6);
  EXPECT_EQ(train_on(options, 4, {}), whole);
}

TEST(Inside, ACheckpointOfSingleModelsIsRefused) {
  const support::TempFolder folder;
  Options options = inside("awc", "ring-static");
  options.inside = "none";
  train_on(options, 3, folder.path());
  options.inside = "allreduce";
  options.resume_from = checkpoint_path(folder.path(), 3);
  support::run_threads(kInsideWorkers, [&](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network(torch::kFloat32);
    EXPECT_THAT(message_of([&] { DecentralizedDataParallel model(network.ptr(), here.world, options); }),
                HasSubstr("resume different models"));
    return std::string();
  });
}

}  // namespace
}  // namespace kith::train
