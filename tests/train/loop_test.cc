// Loops that are not the simplest: groups, rates, accumulation, clipping, gradients that are not finite.
#include <limits>

#include <gmock/gmock.h>
#include <torch/optim.h>

#include "tests/train/wrapper_support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Groups, HaveTheirOwnRateAndDecay) {
  Network by_torch = make_network(), by_kith = make_network();
  std::vector<torch::optim::OptimizerParamGroup> groups;
  const auto options_of = [](double lr, double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(lr).weight_decay(decay));
  };
  groups.emplace_back(std::vector{by_torch->first->weight, by_torch->second->weight}, options_of(2e-2, 0.1));
  groups.emplace_back(std::vector{by_torch->first->bias}, options_of(5e-2, 0));
  groups.emplace_back(std::vector{by_torch->second->bias}, options_of(1e-3, 0.3));
  torch::optim::AdamW optimizer(groups, torch::optim::AdamWOptions());

  Alone alone;
  Options options = options_for("awc", "adamw");
  options.lr = 1e-3;
  options.weight_decay = 0.3;
  options.groups.push_back(
      {"matrices", [](const std::string&, const torch::Tensor& p) { return p.dim() >= 2; }, 2e-2, 0.1});
  options.groups.push_back(named_group("first bias", {"first.bias"}));
  options.groups.back().weight_decay = 0;
  DecentralizedDataParallel model(by_kith.ptr(), alone.world(), options);
  ASSERT_EQ(model.parameter_groups().size(), 3u);
  EXPECT_EQ(model.parameter_groups()[1].lr, 1e-3);
  EXPECT_EQ(model.parameter_groups()[2].parameters, std::vector<std::string>{"second.bias"});
  model.parameter_groups()[1].lr = 5e-2;  // by the user, between steps

  for (int t = 0; t < 30; ++t) {
    optimizer.zero_grad();
    loss_of(by_torch, batch_of(0, t)).backward();
    optimizer.step();
    backward(model, by_kith);
    model.step();
  }
  EXPECT_LT(largest_difference(flatten(*by_kith), flatten(*by_torch)), 1e-12);
}

TEST(Rate, IsReadAtEveryStep) {
  Network by_torch = make_network(), by_kith = make_network();
  torch::optim::Adam optimizer(by_torch->parameters(), torch::optim::AdamOptions(1));
  Alone alone;
  DecentralizedDataParallel model(by_kith.ptr(), alone.world(), adam(1));
  for (int t = 0; t < 30; ++t) {
    const double lr = 1e-2 / (1 + t);
    static_cast<torch::optim::AdamOptions&>(optimizer.param_groups()[0].options()).lr(lr);
    model.set_lr(lr);
    optimizer.zero_grad();
    loss_of(by_torch, batch_of(0, t)).backward();
    optimizer.step();
    backward(model, by_kith);
    model.step();
  }
  EXPECT_LT(largest_difference(flatten(*by_kith), flatten(*by_torch)), 1e-12);
}

TEST(Accumulation, UnderNoSyncEqualsTheWholeBatch) {
  for (const char* algorithm : {"allreduce", "awc"}) {
    const auto train = [&](int pieces) {
      std::vector<std::vector<double>> models(2);
      support::run_threads(2, [&](Worker& worker) {
        TestWorld here(worker);
        Network network = make_network();
        Options options = options_for(algorithm, "adam");
        options.bucket_bytes = 1;
        DecentralizedDataParallel model(network.ptr(), here.world, options);
        for (int t = 0; t < 10; ++t) {
          model.zero_grad();
          const plain::Batch whole = batch_of(worker.rank, t, 12);
          const auto each = static_cast<std::ptrdiff_t>(12 / pieces);
          for (int k = 0; k < pieces; ++k) {
            const plain::Batch part{{whole.x.begin() + k * each, whole.x.begin() + (k + 1) * each},
                                    {whole.y.begin() + k * each, whole.y.begin() + (k + 1) * each}};
            if (k + 1 < pieces) {
              const auto guard = model.no_sync();
              loss_of(network, part).backward();
            } else {
              loss_of(network, part).backward();
            }
          }
          model.step({.gradient_scale = 1.0 / pieces});
        }
        models[static_cast<std::size_t>(worker.rank)] = flatten(*network);
        return std::string();
      });
      return models;
    };
    const auto in_pieces = train(4), whole = train(1);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_LT(largest_difference(in_pieces[i], whole[i]), 1e-12) << algorithm;
  }
}

TEST(Accumulation, ForgettingTheGuardWithAllReduceIsAnErrorThatNamesAParameter) {
  Alone alone;
  Network network = make_network();
  DecentralizedDataParallel model(network.ptr(), alone.world(), options_for("allreduce", "adam"));
  backward(model, network);
  EXPECT_THAT(message_of([&] { loss_of(network, batch_of(0, 1)).backward(); }),
              AllOf(HasSubstr("second."), HasSubstr("no_sync")));
}

TEST(Accumulation, StepUnderTheGuardIsAnError) {
  Alone alone;
  Network network = make_network();
  DecentralizedDataParallel model(network.ptr(), alone.world(), adam());
  const auto guard = model.no_sync();
  EXPECT_THAT(message_of([&] { model.step(); }), HasSubstr("no_sync"));
}

TEST(Clipping, IsByTheNormOfTheWholeModelWhateverTheBuckets) {
  Network by_torch = make_network();
  torch::optim::SGD optimizer(by_torch->parameters(), torch::optim::SGDOptions(0.1));
  std::vector<double> norms;
  for (int t = 0; t < 20; ++t) {
    optimizer.zero_grad();
    (3 * loss_of(by_torch, batch_of(0, t))).backward();
    norms.push_back(torch::nn::utils::clip_grad_norm_(by_torch->parameters(), 0.7));
    optimizer.step();
  }
  for (const char* algorithm : {"awc", "atc", "allreduce"}) {
    for (std::size_t bucket_bytes : {std::size_t{1}, std::size_t{1} << 20}) {
      Alone alone;
      Network network = make_network();
      Options options = options_for(algorithm, "sgd");
      options.lr = 0.1;
      options.bucket_bytes = bucket_bytes;
      DecentralizedDataParallel model(network.ptr(), alone.world(), options);
      for (int t = 0; t < 20; ++t) {
        backward(model, network);
        model.clip_grad_norm(0.7);
        const StepReport report = model.step({.gradient_scale = 3});
        EXPECT_NEAR(report.gradient_norm.get(), norms[static_cast<std::size_t>(t)], 1e-10);
      }
      EXPECT_LT(largest_difference(flatten(*network), flatten(*by_torch)), 1e-10)
          << algorithm << ", " << bucket_bytes;
    }
  }
}

TEST(Clipping, ActsOnOneStepAndOnTheAveragedGradient) {
  support::run_threads(2, [](Worker& worker) {
    TestWorld here(worker);
    auto bag = std::make_shared<Bag>();
    torch::Tensor p = bag->add("p", doubles({0, 0}));
    Options options = options_for("allreduce", "sgd");
    options.lr = 1;
    DecentralizedDataParallel model(bag, here.world, options);
    const auto backward = [&] {
      model.zero_grad();
      (p * (worker.rank == 0 ? doubles({8, 0}) : doubles({-2, 8}))).sum().backward();  // the mean is (3, 4)
    };
    backward();
    model.clip_grad_norm(1);
    EXPECT_DOUBLE_EQ(model.step().gradient_norm.get(), 5);
    EXPECT_NEAR(p[0].item<double>(), -0.6, 1e-6);
    backward();
    EXPECT_FALSE(model.step().gradient_norm.valid());
    EXPECT_NEAR(p[1].item<double>(), -0.8 - 4, 1e-6);
    return std::string();
  });
  Alone alone;
  Network network = make_network();
  DecentralizedDataParallel model(network.ptr(), alone.world(), adam());
  EXPECT_THAT(message_of([&] { model.clip_grad_norm(0); }), HasSubstr("clip_grad_norm"));
}

// ---- gradients that are no numbers

TEST(NonFiniteGradients, SkipTheMoveButNotTheRound) {
  constexpr int kWorkers = 4, kBadStep = 5, kBadWorker = 2;
  for (const char* algorithm : {"awc", "atc", "dsgt"}) {
    // A worker without gradients in that step does the same: it mixes and does not move.
    const auto train = [&](bool poisoned) {
      std::vector<std::vector<double>> models(kWorkers);
      support::run_threads(kWorkers, [&](Worker& worker) {
        TestWorld here(worker);
        Network network = make_network();
        Options options = options_for(algorithm, "accum-adamw", "ring");
        options.non_finite = NonFinite::skip;
        DecentralizedDataParallel model(network.ptr(), here.world, options);
        for (int t = 0; t < 12; ++t) {
          backward(model, network);
          const bool bad = worker.rank == kBadWorker && t == kBadStep;
          if (bad && poisoned)
            network->first->bias.mutable_grad()[1] = std::numeric_limits<double>::quiet_NaN();
          if (bad && !poisoned) model.zero_grad();
          EXPECT_EQ(model.step().skipped, bad && poisoned);
        }
        models[static_cast<std::size_t>(worker.rank)] = flatten(*network);
        return std::string();
      });
      return models;
    };
    EXPECT_EQ(train(true), train(false)) << algorithm;
  }
}

TEST(NonFiniteGradients, WithAllReduceEverybodySkips) {
  support::run_threads(2, [](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network();
    Options options = options_for("allreduce", "adam");
    options.non_finite = NonFinite::skip;
    DecentralizedDataParallel model(network.ptr(), here.world, options);
    backward(model, network);
    model.step();
    const std::vector<double> before = flatten(*network);
    model.zero_grad();
    const double factor = worker.rank == 1 ? std::numeric_limits<double>::infinity() : 1;
    (loss_of(network, batch_of(worker.rank, 1)) * factor).backward();
    EXPECT_TRUE(model.step().skipped);
    EXPECT_EQ(flatten(*network), before);
    backward(model, network);
    EXPECT_FALSE(model.step().skipped);
    EXPECT_NE(flatten(*network), before);
    return std::string();
  });
}

}  // namespace
}  // namespace kith::train
