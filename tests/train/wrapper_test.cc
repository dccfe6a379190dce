// The wrapper around modules that are not a plain stack of float matrices, and loops that are not the
// simplest.
#include <limits>

#include <gmock/gmock.h>
#include <torch/optim.h>

#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;
using ::testing::AllOf;
using ::testing::HasSubstr;

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}

Options adam(double lr = 1e-2) {
  Options options = options_for("awc", "adam");
  options.lr = lr;
  return options;
}

torch::Tensor doubles(std::initializer_list<double> values) {
  return torch::tensor(std::vector<double>(values), torch::kFloat64).to(test_device());
}

torch::Tensor ones(torch::IntArrayRef sizes, torch::ScalarType type = torch::kFloat32) {
  return torch::ones(sizes, torch::TensorOptions().dtype(type).device(test_device()));
}

// Parameters straight in a module; tests write the losses.
struct Bag : torch::nn::Module {
  torch::Tensor add(const std::string& name, const torch::Tensor& value) {
    return register_parameter(name, value);
  }
};

// ---- structure of the model

TEST(Tied, SameTensorInTwoModulesIsOneParameter) {
  // torch's own optimizer is given the tied weight once.
  const auto train = [](bool with_kith) {
    auto first = torch::nn::Linear(torch::nn::LinearOptions(3, 3).bias(false));
    first->to(torch::kFloat64);
    first->to(test_device());
    assign(*first, random_values(9, kSeed));
    auto module = std::make_shared<torch::nn::Module>();
    module->register_module("first", first);
    auto holder = std::make_shared<Bag>();
    holder->add("weight", first->weight);
    module->register_module("second", holder);
    const auto loss = [&](int t) {
      const torch::Tensor x = to_tensor(batch_of(0, t).x, torch::kFloat64);
      return torch::matmul(torch::tanh(first->forward(x)), first->weight.t()).pow(2).mean();
    };
    Alone alone;
    std::unique_ptr<DecentralizedDataParallel> model;
    torch::optim::Adam optimizer({first->weight}, torch::optim::AdamOptions(1e-2));
    if (with_kith) {
      model = std::make_unique<DecentralizedDataParallel>(module, alone.world(), adam());
      EXPECT_EQ(model->parameter_groups()[0].parameters, std::vector<std::string>{"first.weight"});
    }
    for (int t = 0; t < 20; ++t) {
      optimizer.zero_grad();
      loss(t).backward();
      if (with_kith) {
        model->step();
        EXPECT_EQ(first->weight.data_ptr(), holder->parameters()[0].data_ptr());
      } else {
        optimizer.step();
      }
    }
    return flatten(*first);
  };
  EXPECT_LT(largest_difference(train(true), train(false)), 1e-12);
}

TEST(Tied, SeveralTensorsOverOneMemoryAddUpTheirGradients) {
  for (const char* algorithm : {"awc", "allreduce"}) {
    const auto module = std::make_shared<Bag>();
    torch::Tensor whole = module->add("whole", doubles({1, 2, 3, 4}).reshape({2, 2}));
    torch::Tensor turned = module->add("turned", whole.detach().t());
    Alone alone;
    Options options = options_for(algorithm, "sgd");
    options.lr = 1;
    DecentralizedDataParallel model(module, alone.world(), options);
    (whole * doubles({1, 0, 0, 0}).reshape({2, 2})).sum().backward();
    (turned * doubles({0, 10, 0, 0}).reshape({2, 2})).sum().backward();  // element (0,1) there is (1,0) here
    model.step();
    EXPECT_TRUE(torch::equal(whole, doubles({0, 2, -7, 4}).reshape({2, 2}))) << algorithm << whole;
    EXPECT_TRUE(torch::equal(turned, whole.t()));
  }
}

TEST(Table, NamesParametersItCannotTrain) {
  Alone alone;
  const auto wrap = [&](const std::vector<std::pair<std::string, torch::Tensor>>& parameters) {
    auto bag = std::make_shared<Bag>();
    for (const auto& [name, value] : parameters)
      bag->add(name, value);
    return message_of([&] { DecentralizedDataParallel model(bag, alone.world(), adam()); });
  };
  EXPECT_THAT(wrap({{"stretched", ones({1}).expand({5})}}),
              AllOf(HasSubstr("stretched"), HasSubstr("overlap")));
  EXPECT_THAT(wrap({{"holed", ones({8}).slice(0, 0, 8, 2)}}), HasSubstr("holed"));
  const torch::Tensor shared = ones({8});
  EXPECT_THAT(wrap({{"left", shared.slice(0, 0, 5)}, {"right", shared.slice(0, 4, 8)}}),
              AllOf(HasSubstr("left"), HasSubstr("right")));
  EXPECT_THAT(wrap({{"complex", ones({2}, torch::kComplexFloat)}}), HasSubstr("complex"));
}

TEST(Table, NeighboursInOneStorageAndEmptyParametersAreFine) {
  Alone alone;
  auto bag = std::make_shared<Bag>();
  const torch::Tensor storage = ones({8}, torch::kFloat64);
  torch::Tensor left = bag->add("left", storage.slice(0, 0, 4)),
                right = bag->add("right", storage.slice(0, 4, 8));
  bag->add("empty", ones({0}));
  Options options = options_for("awc", "sgd");
  options.lr = 1;
  DecentralizedDataParallel model(bag, alone.world(), options);
  (left.sum() + 2 * right.sum()).backward();
  model.step();
  EXPECT_TRUE(torch::equal(left, 0 * ones({4}, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(right, -ones({4}, torch::kFloat64)));
}

TEST(Layout, ChannelsLastWeightsAndStridedGradientsAreTheSameModel) {
  const auto train = [](bool channels_last) {
    torch::nn::Conv2d conv(torch::nn::Conv2dOptions(3, 4, 3));
    conv->to(torch::kFloat64);
    conv->to(test_device());
    assign(*conv, random_values(static_cast<std::size_t>(4 * 27 + 4), kSeed));
    if (channels_last) {
      const torch::NoGradGuard no_grad;
      conv->weight.set_data(conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
    }
    Alone alone;
    DecentralizedDataParallel model(conv.ptr(), alone.world(), adam());
    for (int t = 0; t < 10; ++t) {
      model.zero_grad();
      const std::vector<double> pixels = random_values(2 * 3 * 5 * 5, hash_words(kSeed, t));
      const torch::Tensor x = torch::tensor(pixels, torch::kFloat64).reshape({2, 3, 5, 5}).to(test_device());
      conv->forward(x).pow(2).mean().backward();
      if (t % 2 == 1)
        conv->weight.mutable_grad() = conv->weight.grad().contiguous();  // not the weight's own strides
      model.step();
      EXPECT_EQ(conv->weight.is_contiguous(torch::MemoryFormat::ChannelsLast), channels_last);
    }
    return flatten(*conv);
  };
  EXPECT_LT(largest_difference(train(true), train(false)), 1e-12);
}

TEST(Types, SeveralInOneModelEachTrainInTheirOwnPrecision) {
  const auto reports = support::run_threads(2, [](Worker& worker) {
    Place place(worker);
    auto bag = std::make_shared<Bag>();
    std::vector<torch::Tensor> p;
    for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kBFloat16, torch::kFloat16}) {
      p.push_back(bag->add(c10::toString(type), ones({10}, type)));
    }
    bag->register_parameter("count", ones({3}, torch::kInt64), /*requires_grad=*/false);
    Options options = options_for("awc", "sgd");
    options.lr = 1e-3;
    DecentralizedDataParallel model(bag, place.world, options);
    for (int t = 0; t < 8; ++t) {
      model.zero_grad();
      torch::Tensor loss = 0 * ones({}, torch::kFloat64);
      for (const torch::Tensor& x : p)
        loss = loss + x.to(torch::kFloat64).sum();
      loss.backward();
      model.step();
    }
    // Steps of 0.001 are lost on a bf16 number near 1; their float master keeps them.
    EXPECT_NEAR(p[0][0].item<double>(), 0.992, 1e-6);
    EXPECT_NEAR(p[1][0].item<double>(), 0.992, 1e-14);
    EXPECT_NEAR(p[2][0].item<double>(), 0.992, 0.002);
    EXPECT_NEAR(p[3][0].item<double>(), 0.992, 0.0003);
    for (std::size_t k = 0; k < p.size(); ++k)
      EXPECT_EQ(bag->parameters()[k].scalar_type(), p[k].scalar_type());
    EXPECT_EQ(model.consensus_distance(), 0);
    return std::string();
  });
  EXPECT_EQ(reports.size(), 2u);
}

// ---- parameters that come and go

TEST(Frozen, ParametersMayBeFrozenUnusedAndUsedAgain) {
  // Which of the two weights takes part in step t, and which of them is trainable.
  const auto train = [](const std::string& algorithm) {
    Network network = make_network();
    Alone alone;
    std::unique_ptr<DecentralizedDataParallel> model;
    torch::optim::Adam optimizer(network->parameters(), torch::optim::AdamOptions(1e-2));
    if (algorithm != "torch") {
      Options options = options_for(algorithm, "adam");
      options.lr = 1e-2;
      network->first->weight.set_requires_grad(false);
      model = std::make_unique<DecentralizedDataParallel>(network.ptr(), alone.world(), options);
    }
    for (int t = 0; t < 30; ++t) {
      network->first->weight.set_requires_grad(t >= 5 && t % 7 != 0);
      for (torch::Tensor& p : network->parameters())
        p.mutable_grad().reset();
      const plain::Batch batch = batch_of(0, t);
      if (t % 4 == 3) {
        // The first layer only: the second has no gradient in this step.
        network->first->forward(to_tensor(batch.x, torch::kFloat64)).pow(2).mean().backward();
      } else {
        loss_of(network, batch).backward();
      }
      if (model) {
        model->step();
      } else {
        optimizer.step();
      }
    }
    return flatten(*network);
  };
  const std::vector<double> expected = train("torch");
  EXPECT_LT(largest_difference(train("awc"), expected), 1e-12);
  EXPECT_LT(largest_difference(train("allreduce"), expected), 1e-12);
  EXPECT_LT(largest_difference(train("atc"), expected), 1e-12);
}

TEST(Frozen, AnUnusedParameterIsStillMixed) {
  support::run_threads(2, [](Worker& worker) {
    Place place(worker);
    auto bag = std::make_shared<Bag>();
    torch::Tensor used = bag->add("used", doubles({1})),
                  unused = bag->add("unused", doubles({worker.rank == 0 ? 2.0 : 4.0}));
    Options options = options_for("awc", "sgd");
    options.same_start = false;
    options.lr = 1;
    DecentralizedDataParallel model(bag, place.world, options);
    used.sum().backward();
    model.step();
    EXPECT_EQ(used.item<double>(), 0);
    EXPECT_EQ(unused.item<double>(), 3);
    return std::string();
  });
}

TEST(AllReduce, AParameterThatOneWorkerDoesNotUseMovesByTheMean) {
  support::run_threads(2, [](Worker& worker) {
    Place place(worker);
    auto bag = std::make_shared<Bag>();
    torch::Tensor a = bag->add("a", doubles({1})), b = bag->add("b", doubles({1})),
                  c = bag->add("c", doubles({1}));
    Options options = options_for("allreduce", "sgd");
    options.lr = 1;
    options.bucket_bytes = 1;
    DecentralizedDataParallel model(bag, place.world, options);
    (worker.rank == 0 ? a.sum() : a.sum() + 4 * b.sum()).backward();
    model.step();
    EXPECT_EQ(a.item<double>(), 0);
    EXPECT_EQ(b.item<double>(), -1);
    EXPECT_EQ(c.item<double>(), 1);
    return std::string();
  });
}

// ---- groups, rates, accumulation, clipping

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
        Place place(worker);
        Network network = make_network();
        Options options = options_for(algorithm, "adam");
        options.bucket_bytes = 1;
        DecentralizedDataParallel model(network.ptr(), place.world, options);
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
    Place place(worker);
    auto bag = std::make_shared<Bag>();
    torch::Tensor p = bag->add("p", doubles({0, 0}));
    Options options = options_for("allreduce", "sgd");
    options.lr = 1;
    DecentralizedDataParallel model(bag, place.world, options);
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
        Place place(worker);
        Network network = make_network();
        Options options = options_for(algorithm, "accum-adamw", "ring");
        options.non_finite = NonFinite::skip;
        DecentralizedDataParallel model(network.ptr(), place.world, options);
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
    Place place(worker);
    Network network = make_network();
    Options options = options_for("allreduce", "adam");
    options.non_finite = NonFinite::skip;
    DecentralizedDataParallel model(network.ptr(), place.world, options);
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
