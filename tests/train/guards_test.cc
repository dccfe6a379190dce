// Where the parameters lie, who may change them, and what happens when somebody leaves.
#include <gmock/gmock.h>

#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;
using ::testing::AllOf;
using ::testing::HasSubstr;

Options with_layout(engine::Layout layout) {
  Options options = options_for("awc", "adam");
  options.lr = 1e-2;
  options.layout = layout;
  return options;
}

// ---- layouts

TEST(Alternating, ParametersMoveBetweenTwoPlacesWithoutACopy) {
  Alone alone;
  Network network = make_network(torch::kFloat32);
  DecentralizedDataParallel model(network.ptr(), alone.world(), with_layout(engine::Layout::alternating));
  std::vector<const void*> seen;
  for (int t = 0; t < 4; ++t) {
    seen.push_back(network->first->weight.data_ptr());
    train_steps(model, network, 1);
  }
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_EQ(seen[0], seen[2]);
  EXPECT_EQ(seen[1], seen[3]);
}

TEST(Staged, ParametersKeepTheirAddress) {
  for (const char* algorithm : {"awc", "atc", "allreduce", "none"}) {
    Alone alone;
    Network network = make_network(torch::kFloat32);
    const void* const before = network->first->weight.data_ptr();
    Options options = options_for(algorithm, "adam");
    options.layout = engine::Layout::staged;
    DecentralizedDataParallel model(network.ptr(), alone.world(), options);
    train_steps(model, network, 3);
    EXPECT_EQ(network->first->weight.data_ptr(), before) << algorithm;
  }
}

TEST(Layouts, AndWiresOfFullPrecisionGiveTheSameBits) {
  EXPECT_EQ(train_world("inproc", 3, with_layout(engine::Layout::alternating), 20, torch::kFloat32),
            train_world("inproc", 3, with_layout(engine::Layout::staged), 20, torch::kFloat32));
}

TEST(Wire, RoundedToBf16StaysNearTheFullOne) {
  Options rounded = with_layout(engine::Layout::automatic);
  rounded.wire = DType::bf16;
  const auto expected = train_world("inproc", 3, with_layout(engine::Layout::staged), 20, torch::kFloat32);
  const auto models = train_world("inproc", 3, rounded, 20, torch::kFloat32);
  EXPECT_LT(largest_difference(models[1], expected[1]), 0.05);
  EXPECT_GT(largest_difference(models[1], expected[1]), 0);
}

TEST(RetainedGraph, ThrowsAfterAStep) {
  for (const auto layout : {engine::Layout::alternating, engine::Layout::staged}) {
    Alone alone;
    Network network = make_network();
    DecentralizedDataParallel model(network.ptr(), alone.world(), with_layout(layout));
    const torch::Tensor loss = loss_of(network, batch_of(0, 0));
    loss.backward({}, /*retain_graph=*/true);
    loss.backward({}, /*retain_graph=*/true);  // before a step it is as good as ever
    model.step();
    EXPECT_THAT(message_of([&] { loss.backward(); }), HasSubstr("modified by an inplace operation"));
  }
}

TEST(Memory, AlternatingAccumulatedAdamTakes24BytesPerParameter) {
  Alone alone;
  torch::nn::Linear layer(1024, 1024);
  Options options = options_for("awc", "accum-adam");
  DecentralizedDataParallel model(layer.ptr(), alone.world(), options);
  const double parameters = 1024 * 1024 + 1024;
  const engine::MemoryUse use = model.engine().memory();
  // The two slots hold the parameters themselves; the gradient's four bytes are torch's.
  EXPECT_NEAR(static_cast<double>(use.windows) / parameters, 8, 0.01);
  EXPECT_NEAR(static_cast<double>(use.state) / parameters, 12, 0.01);
  EXPECT_EQ(use.staging, 0u);
}

// ---- lifetime

TEST(Lifetime, TheModuleOutlivesTheWrapperAndItsWorld) {
  for (const auto layout : {engine::Layout::alternating, engine::Layout::staged}) {
    Network network = make_network();
    std::vector<double> last;
    {
      Alone alone;
      DecentralizedDataParallel model(network.ptr(), alone.world(), with_layout(layout));
      train_steps(model, network, 3);
      last = flatten(*network);
    }
    EXPECT_EQ(flatten(*network), last);
    loss_of(network, batch_of(0, 0)).backward();
    Alone another;
    DecentralizedDataParallel again(network.ptr(), another.world(), with_layout(layout));
    train_steps(again, network, 1);
    EXPECT_NE(flatten(*network), last);
  }
}

TEST(SeveralModels, InOneProcessDoNotMeet) {
  support::run_threads(2, [](Worker& worker) {
    TestWorld here(worker);
    Network first = make_network(), second = make_network(), alone = make_network();
    Options options = with_layout(engine::Layout::automatic);
    options.name = "first";
    DecentralizedDataParallel a(first.ptr(), here.world, options);
    options.name = "second";
    options.algorithm = "allreduce";
    DecentralizedDataParallel b(second.ptr(), here.world, options);
    options.name = "alone";
    options.algorithm = "awc";
    DecentralizedDataParallel c(alone.ptr(), here.world, options);
    for (int t = 0; t < 10; ++t) {
      train_steps(a, first, 1);
      train_steps(b, second, 1);
      if (t % 2 == 0) train_steps(b, second, 1);
    }
    train_steps(c, alone, 10);
    EXPECT_EQ(flatten(*first), flatten(*alone));
    EXPECT_EQ(b.steps(), 15);
    EXPECT_LT(b.consensus_distance(), 1e-14);
    return std::string();
  });
}

TEST(Mode, TrainAndEvalReachTheModule) {
  Alone alone;
  Network network = make_network();
  DecentralizedDataParallel model(network.ptr(), alone.world(), with_layout(engine::Layout::automatic));
  model.eval();
  EXPECT_FALSE(network->is_training());
  model.train();
  EXPECT_TRUE(network->is_training());
}

TEST(ZeroGrad, DropsOrZeroes) {
  Alone alone;
  Network network = make_network();
  DecentralizedDataParallel model(network.ptr(), alone.world(), with_layout(engine::Layout::automatic));
  backward(model, network);
  model.zero_grad(/*set_to_none=*/false);
  EXPECT_EQ(network->first->weight.grad().abs().sum().item<double>(), 0);
  model.zero_grad();
  EXPECT_FALSE(network->first->weight.grad().defined());
}

// ---- edits

TEST(Edit, WithoutTheGuardIsAnErrorThatNamesTheParameter) {
  for (const auto layout : {engine::Layout::alternating, engine::Layout::staged}) {
    Alone alone;
    Network network = make_network();
    DecentralizedDataParallel model(network.ptr(), alone.world(), with_layout(layout));
    train_steps(model, network, 2);
    {
      const torch::NoGradGuard no_grad;
      network->second->bias.add_(1);
    }
    EXPECT_THAT(message_of([&] { model.step(); }), AllOf(HasSubstr("second.bias"), HasSubstr("edit()")));
  }
  Alone alone;
  Network network = make_network();
  DecentralizedDataParallel model(network.ptr(), alone.world(), with_layout(engine::Layout::alternating));
  network->to(torch::kFloat32);
  EXPECT_THAT(message_of([&] { model.step(); }), AllOf(HasSubstr("first.weight"), HasSubstr("moved")));
}

TEST(Edit, UnderTheGuardReachesTheNeighboursAndKeepsTheMoments) {
  struct Variant {
    engine::Layout layout;
    std::optional<DType> wire;
    std::string algorithm;
  };
  for (const Variant& variant :
       {Variant{engine::Layout::alternating, {}, "awc"}, Variant{engine::Layout::staged, {}, "awc"},
        Variant{engine::Layout::staged, DType::bf16, "awc"}, Variant{engine::Layout::staged, {}, "atc"},
        Variant{engine::Layout::staged, {}, "allreduce"}}) {
    support::run_threads(2, [&](Worker& worker) {
      TestWorld here(worker);
      auto module = std::make_shared<torch::nn::Module>();
      torch::Tensor p = module->register_parameter("p", torch::zeros({3}, test_device()));
      Options options = options_for(variant.algorithm, "sgd");
      options.layout = variant.layout;
      options.wire = variant.wire;
      options.momentum = 0.5;
      options.lr = 1;
      DecentralizedDataParallel model(module, here.world, options);
      const auto step = [&] {
        model.zero_grad();
        p.sum().backward();
        model.step();
      };
      step();  // p = -1, momentum 1
      for (int round = 0; round < 2; ++round) {
        const auto guard = model.edit();
        const torch::NoGradGuard no_grad;
        p.fill_(worker.rank == 0 ? 8 : 16);
      }
      step();  // momentum 1.5
      const double mean = variant.algorithm == "allreduce" ? (worker.rank == 0 ? 8 : 16) : 12;
      EXPECT_DOUBLE_EQ(p[1].item<double>(), mean - 1.5) << variant.algorithm;
      EXPECT_EQ(model.steps(), 2);
      return std::string();
    });
  }
}

TEST(Edit, StepUnderTheGuardIsAnErrorAndAnAbandonedEditStaysOne) {
  Alone alone;
  Network network = make_network();
  DecentralizedDataParallel model(network.ptr(), alone.world(), with_layout(engine::Layout::alternating));
  EXPECT_THAT(message_of([&] {
                const auto guard = model.edit();
                model.step();
              }),
              HasSubstr("edit()"));
  EXPECT_THAT(message_of([&] { model.step(); }), HasSubstr("edit()"));
}

// ---- averages

TEST(Average, IsTheExactMeanAndIsUndone) {
  for (const auto layout : {engine::Layout::alternating, engine::Layout::staged}) {
    std::vector<std::vector<double>> own(4), mean(4);
    std::vector<double> distance(4);
    support::run_threads(4, [&](Worker& worker) {
      TestWorld here(worker);
      Network network = make_network();
      Options options = with_layout(layout);
      options.topology = "ring";
      DecentralizedDataParallel model(network.ptr(), here.world, options);
      train_steps(model, network, 3);
      const auto rank = static_cast<std::size_t>(worker.rank);
      own[rank] = flatten(*network);
      distance[rank] = model.consensus_distance();
      {
        const auto guard = model.average();
        mean[rank] = flatten(*network);
        EXPECT_THAT(message_of([&] { model.step(); }), HasSubstr("average()"));
        EXPECT_THAT(message_of([&] { const auto second = model.average(); }), HasSubstr("average()"));
      }
      EXPECT_EQ(flatten(*network), own[rank]);
      train_steps(model, network, 3);
      EXPECT_EQ(model.gather(worker.rank * 2.0), (std::vector<double>{0, 2, 4, 6}));
      return to_bytes(flatten(*network));
    });
    double squared = 0;
    for (std::size_t e = 0; e < own[0].size(); ++e) {
      const double expected = (own[0][e] + own[1][e] + own[2][e] + own[3][e]) / 4;
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_NEAR(mean[i][e], expected, 1e-15);
        squared += (own[i][e] - expected) * (own[i][e] - expected) / 4;
      }
    }
    for (double d : distance)
      EXPECT_NEAR(d, std::sqrt(squared), 1e-12);
    EXPECT_GT(distance[0], 1e-6);
  }
}

TEST(Average, DoesNotDisturbTraining) {
  const auto train = [](bool looks) {
    return support::run_threads(3, [&](Worker& worker) {
      TestWorld here(worker);
      Network network = make_network();
      DecentralizedDataParallel model(network.ptr(), here.world, with_layout(engine::Layout::automatic));
      for (int t = 0; t < 6; ++t) {
        backward(model, network);
        if (looks && t % 2 == 0) {
          const auto guard = model.average();
          loss_of(network, batch_of(0, 0));
        }
        model.step();
      }
      return to_bytes(flatten(*network));
    });
  };
  EXPECT_EQ(train(true), train(false));
}

// ---- buffers

TEST(Buffers, AreLocalOrAveragedAsThePolicySays) {
  for (const auto policy : {BufferPolicy::local, BufferPolicy::averaged}) {
    support::run_threads(2, [&](Worker& worker) {
      TestWorld here(worker);
      torch::nn::BatchNorm1d norm(torch::nn::BatchNorm1dOptions(2).momentum(1.0));
      norm->to(torch::kFloat64);
      norm->to(test_device());
      if (worker.rank == 1) norm->running_mean.fill_(77);  // the start is rank 0's, buffers too
      Options options = options_for("awc", "sgd");
      options.buffers = policy;
      DecentralizedDataParallel model(norm.ptr(), here.world, options);
      EXPECT_EQ(norm->running_mean[0].item<double>(), 0);
      const double own = worker.rank == 0 ? 1 : 5;
      const torch::Tensor x = torch::tensor({{own - 1, own}, {own + 1, own + 2}}, torch::kFloat64);
      norm->forward(x.to(test_device())).sum().backward();
      model.step();
      EXPECT_EQ(norm->running_mean[0].item<double>(), own);
      {
        const auto guard = model.average();
        EXPECT_EQ(norm->running_mean[0].item<double>(), policy == BufferPolicy::averaged ? 3 : own);
        EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 1);
      }
      EXPECT_EQ(norm->running_mean[0].item<double>(), own);
      return std::string();
    });
  }
}

// ---- a worker that leaves

TEST(Lost, NeighbourIsNamedAndEverybodyEnds) {
  for (const char* algorithm : {"awc", "atc", "dsgt", "allreduce"}) {
    const auto start = SteadyClock().now();
    const auto reports = support::run_threads(4, [&](Worker& worker) {
      TestWorld here(worker);
      Network network = make_network();
      Options options = options_for(algorithm, "adam", "ring");
      options.on_lost = OnLost::fail;
      DecentralizedDataParallel model(network.ptr(), here.world, options);
      return message_of([&] {
        for (int t = 0; t < 1000; ++t) {
          if (worker.rank == 2 && t == 5) support::die(worker);
          train_steps(model, network, 1);
        }
      });
    });
    for (int rank : {0, 1, 3}) {
      EXPECT_THAT(reports[static_cast<std::size_t>(rank)], AllOf(HasSubstr("worker "), HasSubstr(" is gone")))
          << algorithm << ", worker " << rank;
    }
    EXPECT_LT(seconds(SteadyClock().now() - start), 20) << algorithm;
  }
}

TEST(Lost, CarryingOnIsAPolicy) {
  const auto reports = support::run_threads(3, [](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network();
    Options options = options_for("awc", "adam");
    options.on_lost = OnLost::carry_on;
    DecentralizedDataParallel model(network.ptr(), here.world, options);
    bool told = false;
    for (int t = 0; t < 20; ++t) {
      if (worker.rank == 2 && t == 5) support::die(worker);
      backward(model, network);
      const StepReport report = model.step();
      told = told || (report.lost == std::vector{WorkerId{2}} && report.missing_weight > 0);
    }
    return cat(model.steps(), told ? " told" : " not told");
  });
  EXPECT_EQ(reports[0], "20 told");
  EXPECT_EQ(reports[1], "20 told");
}

}  // namespace
}  // namespace kith::train
