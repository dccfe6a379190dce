// An optimizer of one's own: it steps in place, and the neighbours' models come in beside it.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <torch/optim.h>

#include "kith/base/error.h"
#include "kith/train/checkpoint.h"
#include "tests/support/failure.h"
#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::failure_of;
using support::Worker;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kWorkers = 4, kSteps = 40;
constexpr double kLr = 5e-3;

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

Options external(const std::string& algorithm, const std::string& topology = "exp") {
  Options options = options_for(algorithm, "external", topology);
  options.bucket_bytes = 100;  // several buckets
  options.stagger = false;     // all at the round of the loops
  return options;
}

std::vector<std::vector<double>> train_external(const Options& options, const MakeOptimizer& make,
                                                torch::Dtype type = torch::kFloat64) {
  torch::set_num_threads(1);
  std::vector<std::vector<double>> models;
  for (const std::string& bytes : support::run_threads(kWorkers, [&](Worker& worker) {
         TestWorld here(worker);
         Network network = make_network(type);
         DecentralizedDataParallel model(network.ptr(), here.world, options);
         const auto optimizer = make(network->parameters());
         for (int t = 0; t < kSteps; ++t) {
           backward(model, network);
           model.step(*optimizer);
         }
         return to_bytes(flatten(*network));
       }))
    models.push_back(from_bytes(bytes));
  return models;
}

MakeOptimizer adamw(double decay) {
  return [decay](std::vector<torch::Tensor> parameters) {
    return std::make_unique<torch::optim::AdamW>(std::move(parameters),
                                                 torch::optim::AdamWOptions(kLr).weight_decay(decay));
  };
}

// The fused AdamW decays the mixed model, torch's its own: without decay they are one and the same.
TEST(ExternalOptimizer, TorchsAdamWEqualsTheFusedOne) {
  for (const char* algorithm : {"awc", "atc", "allreduce", "none"}) {
    for (const std::optional<DType> wire : {std::optional<DType>{}, std::optional(DType::bf16)}) {
      Options own = external(algorithm), fused = own;
      fused.optimizer = "adamw";
      fused.lr = kLr;
      own.wire = fused.wire = wire;
      const auto expected = train_world("inproc", kWorkers, fused, kSteps);
      const auto models = train_external(own, adamw(0));
      for (std::size_t i = 0; i < kWorkers; ++i)
        EXPECT_LT(largest_difference(models[i], expected[i]), 1e-10) << algorithm << ", worker " << i;
    }
  }
}

// y_i = rule(x_i, g_i); x_i <- y_i + sum_j W[i,j] (x_j - x_i), in plain loops.
using PlainRule = std::function<void(plain::Vector& x, const plain::Vector& g,
                                     std::vector<plain::Vector>& state, int step)>;

std::vector<plain::Vector> plain_recursion(const PlainRule& rule) {
  const plain::Network network;
  std::vector<plain::Vector> x(kWorkers, start_values());
  std::vector<std::vector<plain::Vector>> states(
      kWorkers, std::vector<plain::Vector>(2, plain::Vector(x[0].size(), 0.0)));
  for (int t = 0; t < kSteps; ++t) {
    const plain::Matrix w = plain::exp4(t);
    std::vector<plain::Vector> next = x;
    for (std::size_t i = 0; i < kWorkers; ++i) {
      const auto g = plain::gradient(network, x[i], batch_of(static_cast<int>(i), t));
      rule(next[i], g, states[i], t + 1);
      for (std::size_t j = 0; j < kWorkers; ++j)
        for (std::size_t e = 0; e < x[i].size(); ++e)
          next[i][e] += w[i][j] * (x[j][e] - x[i][e]);
    }
    x = next;
  }
  return x;
}

void expect_recursion(const MakeOptimizer& make, const PlainRule& rule, const std::string& name) {
  const auto expected = plain_recursion(rule);
  const auto models = train_external(external("awc"), make);
  for (std::size_t i = 0; i < kWorkers; ++i)
    EXPECT_LT(largest_difference(models[i], expected[i]), 1e-10) << name << ", worker " << i;
}

TEST(ExternalOptimizer, AdagradFollowsThePlainRecursion) {
  expect_recursion(
      [](std::vector<torch::Tensor> parameters) {
        return std::make_unique<torch::optim::Adagrad>(std::move(parameters),
                                                       torch::optim::AdagradOptions(0.05).weight_decay(0.02));
      },
      [](plain::Vector& x, const plain::Vector& gradient, std::vector<plain::Vector>& state, int) {
        for (std::size_t e = 0; e < x.size(); ++e) {
          const double g = gradient[e] + 0.02 * x[e];
          state[0][e] += g * g;
          x[e] -= 0.05 * g / (std::sqrt(state[0][e]) + 1e-10);
        }
      },
      "Adagrad");
}

TEST(ExternalOptimizer, RmspropFollowsThePlainRecursion) {
  expect_recursion(
      [](std::vector<torch::Tensor> parameters) {
        return std::make_unique<torch::optim::RMSprop>(
            std::move(parameters), torch::optim::RMSpropOptions(1e-2).alpha(0.9).momentum(0.5));
      },
      [](plain::Vector& x, const plain::Vector& g, std::vector<plain::Vector>& state, int) {
        for (std::size_t e = 0; e < x.size(); ++e) {
          state[0][e] = 0.9 * state[0][e] + 0.1 * g[e] * g[e];
          state[1][e] = 0.5 * state[1][e] + g[e] / (std::sqrt(state[0][e]) + 1e-8);
          x[e] -= 1e-2 * state[1][e];
        }
      },
      "RMSprop");
}

TEST(ExternalOptimizer, AdamWWithDecayFollowsThePlainRecursion) {
  expect_recursion(
      adamw(0.3),
      [](plain::Vector& x, const plain::Vector& g, std::vector<plain::Vector>& state, int step) {
        for (std::size_t e = 0; e < x.size(); ++e) {
          state[0][e] = 0.9 * state[0][e] + 0.1 * g[e];
          state[1][e] = 0.999 * state[1][e] + 0.001 * g[e] * g[e];
          const double m = state[0][e] / (1 - std::pow(0.9, step));
          const double v = state[1][e] / (1 - std::pow(0.999, step));
          x[e] = x[e] * (1 - kLr * 0.3) - kLr * m / (std::sqrt(v) + 1e-8);
        }
      },
      "AdamW");
}

// An optimizer that torch does not know: the sign of the gradient.
class SignDescent final : public torch::optim::Optimizer {
 public:
  struct Settings : torch::optim::OptimizerCloneableOptions<Settings> {
    double lr = 1e-2;
    double get_lr() const override { return lr; }
    void set_lr(const double value) override { lr = value; }
  };
  explicit SignDescent(std::vector<torch::Tensor> parameters)
      : Optimizer({torch::optim::OptimizerParamGroup(std::move(parameters))}, std::make_unique<Settings>()) {}
  torch::Tensor step(LossClosure = nullptr) override {
    const torch::NoGradGuard no_grad;
    for (auto& group : param_groups()) {
      const double lr = static_cast<Settings&>(group.options()).lr;
      for (torch::Tensor& p : group.params())
        if (p.grad().defined()) p.sub_(lr * p.grad().sign());
    }
    return {};
  }
};

TEST(ExternalOptimizer, OfOnesOwnMakingStepsToo) {
  expect_recursion(
      [](std::vector<torch::Tensor> parameters) {
        return std::make_unique<SignDescent>(std::move(parameters));
      },
      [](plain::Vector& x, const plain::Vector& g, std::vector<plain::Vector>&, int) {
        for (std::size_t e = 0; e < x.size(); ++e)
          x[e] -= 1e-2 * (g[e] > 0 ? 1 : -1);
      },
      "SignDescent");
}

// The optimizer's own groups and schedulers count; a parameter that is frozen, or in no group, is only mixed.
TEST(ExternalOptimizer, ItsGroupsAndSchedulersCountAndTheRestIsOnlyMixed) {
  support::run_threads(2, [](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network();
    const double mine = worker.rank;
    {
      const torch::NoGradGuard no_grad;
      for (torch::Tensor& p : network->parameters())
        p.fill_(mine);
    }
    network->second->bias.set_requires_grad(false);
    Options options = external("awc", "complete");
    options.same_start = false;
    DecentralizedDataParallel model(network.ptr(), here.world, options);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector{network->first->weight}, std::make_unique<torch::optim::SGDOptions>(1.0));
    groups.emplace_back(std::vector{network->first->bias, network->second->bias},
                        std::make_unique<torch::optim::SGDOptions>(0.5));
    torch::optim::SGD optimizer(groups, torch::optim::SGDOptions(1));
    torch::optim::StepLR scheduler(optimizer, 1, 0.1);
    const auto step = [&] {
      model.zero_grad();
      (network->first->weight.sum() + network->first->bias.sum() + network->second->weight.sum()).backward();
      model.step(optimizer);
      scheduler.step();
    };
    step();  // the mean of 0 and 1, less the rate
    EXPECT_DOUBLE_EQ(network->first->weight[0][0].item<double>(), 0.5 - 1);
    EXPECT_DOUBLE_EQ(network->first->bias[0].item<double>(), 0.5 - 0.5);
    EXPECT_DOUBLE_EQ(network->second->weight[0][0].item<double>(), 0.5);  // in no group
    EXPECT_DOUBLE_EQ(network->second->bias[0].item<double>(), 0.5);       // frozen
    const auto rate = [&] {
      return static_cast<const torch::optim::SGDOptions&>(optimizer.param_groups()[0].options()).lr();
    };
    for (int t = 0; t < 3; ++t) {
      const double lr = rate(), before = network->first->weight[0][0].item<double>();
      step();
      EXPECT_NEAR(network->first->weight[0][0].item<double>(), before - lr, 1e-12);
    }
    EXPECT_LT(rate(), 0.5);
    return std::string();
  });
}

TEST(ExternalOptimizer, ClippingScalingAndSkippingReachIt) {
  Alone alone;
  Network network = make_network();
  Options options = external("awc", "complete");
  options.non_finite = NonFinite::skip;
  DecentralizedDataParallel model(network.ptr(), alone.world(), options);
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(1));
  const std::vector<double> start = flatten(*network);
  const auto moved = [&] {
    double squares = 0;
    const std::vector<double> now = flatten(*network);
    for (std::size_t e = 0; e < now.size(); ++e)
      squares += (now[e] - start[e]) * (now[e] - start[e]);
    return std::sqrt(squares);
  };
  backward(model, network);
  network->first->bias.mutable_grad()[0] = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(model.step(optimizer).skipped);
  EXPECT_EQ(moved(), 0);
  backward(model, network);
  model.clip_grad_norm(1e-3);
  const StepReport report = model.step(optimizer, {.gradient_scale = 2});
  EXPECT_FALSE(report.skipped);
  EXPECT_GT(report.gradient_norm.get(), 1e-2);
  EXPECT_NEAR(moved(), 1e-3, 1e-6);
}

TEST(ExternalOptimizer, WrongUsesAreNamed) {
  Alone alone;
  Network network = make_network();
  DecentralizedDataParallel own(network.ptr(), alone.world(), external("awc", "complete"));
  backward(own, network);
  EXPECT_THAT(failure_of<InputError>([&] { own.step(); }), HasSubstr("step(optimizer)"));
  torch::optim::LBFGS lbfgs(network->parameters(), torch::optim::LBFGSOptions(1));
  EXPECT_THAT(failure_of<InputError>([&] { own.step(lbfgs); }), HasSubstr("evaluates the loss again"));
  Network other = make_network();
  Options fused = options_for("awc", "adamw");
  fused.name = "fused";
  DecentralizedDataParallel model(other.ptr(), alone.world(), fused);
  torch::optim::SGD sgd(other->parameters(), torch::optim::SGDOptions(1));
  EXPECT_THAT(failure_of<InputError>([&] { model.step(sgd); }),
              AllOf(HasSubstr("adamw"), HasSubstr("external")));
}

TEST(ExternalOptimizer, ItsStateGoesIntoCheckpoints) {
  for (const char* algorithm : {"awc", "allreduce"}) {
    const support::TempFolder folder;
    const auto run = [&](bool resumes) {
      return support::run_threads(2, [&](Worker& worker) {
        TestWorld here(worker);
        Network network = make_network(torch::kFloat32);
        Options options = external(algorithm);
        if (resumes) options.resume_from = checkpoint_path(folder.path(), 5);
        DecentralizedDataParallel model(network.ptr(), here.world, options);
        const auto optimizer = adamw(0.1)(network->parameters());
        model.attach(*optimizer);
        while (model.steps() < 10) {
          backward(model, network);
          model.step(*optimizer);
          if (model.steps() == 5) save_checkpoint(model, {.root = folder.path()});
        }
        return to_bytes(flatten(*network));
      });
    };
    const auto whole = run(false);
    EXPECT_EQ(run(true), whole) << algorithm;
  }
}

TEST(ExternalOptimizer, ACheckpointWithoutItsStateIsRefused) {
  const support::TempFolder folder;
  const auto model_in = [&](const engine::WorldParts& world, Network& network, bool resumes) {
    Options options = external("awc", "complete");
    if (resumes) options.resume_from = checkpoint_path(folder.path(), 0);
    return std::make_unique<DecentralizedDataParallel>(network.ptr(), world, options);
  };
  Network network = make_network();
  {
    Alone alone;
    save_checkpoint(*model_in(alone.world(), network, false), {.root = folder.path()});
  }
  Alone alone;
  const auto model = model_in(alone.world(), network, true);
  torch::optim::SGD sgd(network->parameters(), torch::optim::SGDOptions(1));
  EXPECT_THAT(failure_of<InputError>([&] { model->attach(sgd); }),
              AllOf(HasSubstr("ckpt-"), HasSubstr("holds no state of an optimizer")));
}

}  // namespace
}  // namespace kith::train
