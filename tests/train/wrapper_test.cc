// The wrapper around modules that are not a plain stack of float matrices.
#include <gmock/gmock.h>
#include <torch/optim.h>

#include "tests/train/wrapper_support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;
using ::testing::AllOf;
using ::testing::HasSubstr;

torch::Tensor ones(torch::IntArrayRef sizes, torch::ScalarType type = torch::kFloat32) {
  return torch::ones(sizes, torch::TensorOptions().dtype(type).device(test_device()));
}

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
    TestWorld here(worker);
    auto bag = std::make_shared<Bag>();
    std::vector<torch::Tensor> p;
    for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kBFloat16, torch::kFloat16}) {
      p.push_back(bag->add(c10::toString(type), ones({10}, type)));
    }
    bag->register_parameter("count", ones({3}, torch::kInt64), /*requires_grad=*/false);
    Options options = options_for("awc", "sgd");
    options.lr = 1e-3;
    DecentralizedDataParallel model(bag, here.world, options);
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
    TestWorld here(worker);
    auto bag = std::make_shared<Bag>();
    torch::Tensor used = bag->add("used", doubles({1})),
                  unused = bag->add("unused", doubles({worker.rank == 0 ? 2.0 : 4.0}));
    Options options = options_for("awc", "sgd");
    options.same_start = false;
    options.lr = 1;
    DecentralizedDataParallel model(bag, here.world, options);
    used.sum().backward();
    model.step();
    EXPECT_EQ(used.item<double>(), 0);
    EXPECT_EQ(unused.item<double>(), 3);
    return std::string();
  });
}

TEST(AllReduce, AParameterThatOneWorkerDoesNotUseMovesByTheMean) {
  support::run_threads(2, [](Worker& worker) {
    TestWorld here(worker);
    auto bag = std::make_shared<Bag>();
    torch::Tensor a = bag->add("a", doubles({1})), b = bag->add("b", doubles({1})),
                  c = bag->add("c", doubles({1}));
    Options options = options_for("allreduce", "sgd");
    options.lr = 1;
    options.bucket_bytes = 1;
    DecentralizedDataParallel model(bag, here.world, options);
    (worker.rank == 0 ? a.sum() : a.sum() + 4 * b.sum()).backward();
    model.step();
    EXPECT_EQ(a.item<double>(), 0);
    EXPECT_EQ(b.item<double>(), -1);
    EXPECT_EQ(c.item<double>(), 1);
    return std::string();
  });
}

}  // namespace
}  // namespace kith::train
