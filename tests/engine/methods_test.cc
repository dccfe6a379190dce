// Every method against the recursion of its page, in plain double loops that share no code, and the facts
// that its paper promises.
#include "kith/optim/methods.h"

#include <cmath>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/graph/matrix.h"
#include "tests/engine/method_support.h"

namespace kith::engine {
namespace {

using plain::Vector;

struct Case {
  std::string algorithm, plain, optimizer, topology;
  int rounds = 1;
  std::string trigger = "every 1";
  std::string order = "adapt-first";
};

class EveryMethod : public testing::TestWithParam<Case> {
 protected:
  static constexpr int kWorkers = 5, kSteps = 24;

  EngineOptions options() const {
    const Case& c = GetParam();
    EngineOptions options = options_for(c.algorithm, c.optimizer, c.topology);
    options.optimizer.beta2 = 0.98;
    options.method.rounds = c.rounds;
    options.method.order = optim::parse_order(c.order);
    options.trigger = c.trigger;
    options.schedule.shape = graph::Shape::single_node(kWorkers);
    return options;
  }
};

TEST_P(EveryMethod, EqualsThePlainLoops) {
  const Case& c = GetParam();
  plain::Rule rule;
  rule.optimizer = c.optimizer;
  rule.lr = 0.05;
  rule.momentum = c.optimizer == "sgd" ? 0.9 : 0;
  rule.beta2 = 0.98;
  plain::Problem problem = quadratic_problem(kWorkers, kSteps, options().schedule);
  problem.rounds = c.rounds;
  problem.mixes = [trigger = std::shared_ptr(optim::make_trigger(c.trigger))](int t) {
    return trigger->fires(t);
  };
  const auto expected = plain::train(c.plain, rule, problem);
  for (const std::string& backend : support::all_backends()) {
    const auto models = train_problem(backend, options(), problem, rule.lr);
    for (std::size_t i = 0; i < kWorkers; ++i)
      EXPECT_LT(largest_difference(models[i], expected[i]), 1e-12) << backend << ", worker " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Engine, EveryMethod,
                         testing::Values(Case{"dsgd", "atc", "sgd", "ring-static"},
                                         Case{"dsgd", "awc", "sgd", "ring-static", 1, "every 1", "mix-first"},
                                         Case{"dsgd", "atc", "sgd", "exp", 3, "every 2"},
                                         Case{"d-adam", "atc", "adam", "ring-static", 1, "every 4"},
                                         Case{"d-adam", "awc", "adam", "ring", 1, "every 4", "mix-first"},
                                         Case{"atc", "atc", "adamw", "aer", 2,
                                              "from 0 every 1, from 10 every 3"},
                                         Case{"awc", "awc", "adamw", "exp", 1, "at 0, 1, 5, 6, 7, 20"},
                                         Case{"dsgt", "dsgt", "sgd", "ring-static", 1, "every 3"},
                                         Case{"mc-dsgt", "dsgt", "sgd", "sun-rotating", 4},
                                         Case{"mc-dsgt", "dsgt", "adam", "ring", 3, "every 2"},
                                         Case{"sgp", "sgp", "sgd", "exp-directed", 1, "every 3"}),
                         [](const auto& test) {
                           std::string name =
                               cat(test.param.algorithm, "_", test.param.optimizer, "_", test.index);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Methods, OneRoundOfManyConsensusIsTracking) {
  const EngineOptions one = options_for("dsgt", "adam", "ring");
  EngineOptions many = one;
  many.algorithm = "mc-dsgt";
  EXPECT_EQ(train<double>("inproc", 4, many, 9), train<double>("inproc", 4, one, 9));
}

TEST(Methods, AloneDAdamIsAdam) {
  EXPECT_EQ(train<double>("inproc", 1, options_for("d-adam", "adam", "ring"), 9),
            train<double>("inproc", 1, options_for("none", "adam", "ring"), 9));
}

// arXiv 2211.00533: the mean of what everybody tracks is the mean gradient, in every step.
TEST(McDsgt, TheTrackersMeanIsTheGradientsMean) {
  support::run_world("inproc", 4, [](support::Worker& worker) {
    EngineOptions options = options_for("mc-dsgt", "sgd", "sun-rotating");
    options.optimizer.momentum = 0;
    options.method.rounds = 3;
    options.bucket_bytes = 1 << 20;
    Quadratic<double> quadratic(worker, options, {6});
    quadratic.engine().start();
    for (int t = 0; t < 20; ++t) {
      quadratic.step();
      double difference = 0;
      for (const StateSpan& span : quadratic.engine().state()) {
        const double sign = span.name.ends_with("state0") ? 1 : span.name.ends_with("state1") ? -1 : 0;
        if (sign != 0) difference += sign * reinterpret_cast<const double*>(span.bytes.data())[2];
      }
      double sum = 0, own = 0;
      for (const double value : quadratic.engine().gather(difference)) {
        sum += value;
        own = std::max(own, std::abs(value));
      }
      EXPECT_NEAR(sum / 4, 0, 1e-12) << "step " << t;
      if (t > 0) continue;
      EXPECT_GT(own, 1e-3) << "nobody's own tracker is its gradient";
    }
    return std::string();
  });
}

// Everybody pulls elsewhere, without noise. DSGD with a constant rate stops at a distance that goes with the
// rate; tracking does not stop.
TEST(McDsgt, ReachesTheOptimumWhereDsgdStalls) {
  plain::Problem problem = quadratic_problem(8, 300, sun_schedule(8));
  const Vector best = mean_target(8);
  const auto error = [&](const EngineOptions& options, double lr) {
    double worst = 0;
    for (const Vector& model : train_problem("inproc", options, problem, lr))
      worst = std::max(worst, largest_difference(model, best));
    return worst;
  };
  EngineOptions options = options_for("dsgd", "sgd", "sun-rotating");
  options.optimizer.momentum = 0;
  const double coarse = error(options, 0.3), fine = error(options, 0.03);
  EXPECT_GT(fine, 1e-3);
  EXPECT_GT(coarse, 5 * fine);
  for (const char* algorithm : {"dsgt", "mc-dsgt"}) {
    options.algorithm = algorithm;
    options.method.rounds = options.algorithm == "dsgt" ? 1 : 4;
    EXPECT_LT(error(options, 0.1), 1e-8) << algorithm;
  }
}

// With as many rounds as the graph needs, an outer step is worth one of gradient descent on the mean.
TEST(McDsgt, OuterStepsDoNotDependOnTheGraph) {
  constexpr int kWorkers = 16;
  EngineOptions options = options_for("mc-dsgt", "sgd", "sun-rotating");
  options.optimizer.momentum = 0;
  options.method.rounds = 16;  // 1 / (1 - beta), beta = 1 - 1/16
  const Vector best = mean_target(kWorkers);
  const auto after = [&](const EngineOptions& method, int steps) {
    plain::Problem problem = quadratic_problem(kWorkers, steps, sun_schedule(kWorkers));
    double worst = 0;
    for (const Vector& model : train_problem("inproc", method, problem, 0.5))
      worst = std::max(worst, largest_difference(model, best));
    return worst;
  };
  const double descent = 2 * std::pow(0.5, 10);  // x - best halves in each step of gradient descent
  EXPECT_LT(after(options, 14), descent);
  options.method.rounds = 1;
  EXPECT_GT(after(options, 14), descent);
}

TEST(Methods, RefuseNumbersThatTheyDoNotRead) {
  const auto problem = [](const std::string& algorithm, const optim::MethodOptions& options,
                          const std::string& optimizer = "adamw") {
    try {
      optim::validate(algorithm, options, optimizer);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(problem("atc", {.rounds = 3}), "");
  EXPECT_NE(problem("awc", {.rounds = 3}).find("mc-dsgt"), std::string::npos);
  EXPECT_NE(problem("dsgt", {.rounds = 2}), "");
  EXPECT_NE(problem("atc", {.rounds = 0}), "");
  EXPECT_EQ(problem("d-adam", {.order = optim::Order::mix_first}), "");
  EXPECT_NE(problem("d-adam", {.rounds = 2, .order = optim::Order::mix_first}), "");
  EXPECT_NE(problem("atc", {.order = optim::Order::mix_first}), "");
  EXPECT_NE(problem("d-adam", {}, "sgd").find("adam"), std::string::npos);
  EXPECT_NE(problem("dsgd", {}), "");
  EXPECT_NE(problem("dsgdd", {}).find("dsgd"), std::string::npos);
}

// Rounds cost messages: as many as there are, in the steps that mix and in no other.
TEST(Methods, PublishOncePerRoundInStepsThatMix) {
  support::run_world("inproc", 2, [](support::Worker& worker) {
    EngineOptions options = options_for("mc-dsgt", "sgd", "complete");
    options.method.rounds = 5;
    options.trigger = "every 2";
    Quadratic<float> quadratic(worker, options, {64});
    quadratic.engine().start();
    for (int t = 0; t < 6; ++t) {
      const StepReport report = quadratic.step();
      const std::uint64_t bytes = t % 2 == 1 ? 2 * 5 * 64 * sizeof(float) : 0;
      EXPECT_EQ(report.bytes_published, bytes);
      EXPECT_EQ(report.bytes_read, bytes);
    }
    return std::string();
  });
}

struct Outer {
  std::string algorithm, optimizer, topology;
  double momentum = 0, rate = 1, pull = 0;
};

plain::Problem outer_problem(const EngineOptions& options, int workers, int steps) {
  plain::Problem problem = quadratic_problem(workers, steps, options.schedule);
  problem.mixes = [trigger = std::shared_ptr(optim::make_trigger(options.trigger))](int t) {
    return trigger->fires(t);
  };
  return problem;
}

EngineOptions outer_options(const Outer& c, int workers) {
  EngineOptions options = options_for(c.algorithm, c.optimizer, c.topology);
  options.optimizer.momentum = 0;
  options.optimizer.beta2 = 0.98;
  options.trigger = "every 4";
  options.method.outer_momentum = c.momentum;
  options.method.outer_rate = c.rate;
  if (c.pull > 0) options.method.outer_pull = c.pull;
  options.schedule.shape = graph::Shape::single_node(workers);
  return options;
}

TEST(OuterSteps, EqualThePlainLoops) {
  constexpr int kWorkers = 6;
  for (const Outer& c :
       {Outer{"diloco", "adam", "complete", 0.9, 0.7}, Outer{"noloco", "adam", "matching", 0.5, 0.7, 0.7},
        Outer{"noloco", "sgd", "matching", 0.3, 0.5, 0.9}}) {
    const EngineOptions options = outer_options(c, kWorkers);
    plain::Rule rule;
    rule.optimizer = c.optimizer;
    rule.lr = 0.05;
    rule.beta2 = 0.98;
    plain::Problem problem = outer_problem(options, kWorkers, 26);
    problem.outer_momentum = c.momentum;
    problem.outer_rate = c.rate;
    problem.outer_pull = c.pull;
    const auto expected = plain::train("outer", rule, problem);
    for (const std::string& backend : support::all_backends()) {
      const auto models = train_problem(backend, options, problem, rule.lr);
      for (std::size_t i = 0; i < kWorkers; ++i)
        EXPECT_LT(largest_difference(models[i], expected[i]), 1e-12) << c.algorithm << ", " << backend;
    }
  }
}

TEST(OuterSteps, AloneWithoutMomentumAreTheOptimizer) {
  EngineOptions options = outer_options({"diloco", "adamw", "complete", 0, 1}, 1);
  const plain::Problem problem = outer_problem(options, 1, 20);
  const auto outer = train_problem("inproc", options, problem, 0.05);
  options = options_for("none", "adamw", "complete");
  options.optimizer.beta2 = 0.98;
  EXPECT_LT(largest_difference(outer[0], train_problem("inproc", options, problem, 0.05)[0]), 1e-12);
}

TEST(OuterSteps, WithEverybodyNolocoIsDiloco) {
  const EngineOptions all = outer_options({"diloco", "adam", "complete", 0.6, 0.7}, 4);
  const EngineOptions pairs = outer_options({"noloco", "adam", "complete", 0.6, 0.7, 0.7}, 4);
  const plain::Problem problem = outer_problem(all, 4, 20);
  const auto one = train_problem("inproc", all, problem, 0.05),
             other = train_problem("inproc", pairs, problem, 0.05);
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_LT(largest_difference(one[i], other[i]), 1e-12);
}

// In pairs, and with noise that nothing pulls back, slow models drift apart unless they are pulled together:
// without a pull their spread grows with the steps, with one it stays where it is.
TEST(OuterSteps, ThePullKeepsSlowModelsTogether) {
  constexpr int kWorkers = 6;
  const auto spread = [&](const Outer& c, int steps) {
    const EngineOptions options = outer_options(c, kWorkers);
    plain::Problem problem = outer_problem(options, kWorkers, steps);
    problem.gradient = [](int worker, int t, const plain::Vector& x) {
      Rng rng(hash_words(23, worker, t));
      plain::Vector noise(x.size());
      for (double& value : noise)
        value = rng.normal();
      return noise;
    };
    const auto models = train_problem("inproc", options, problem, 0.05);
    double squares = 0;
    for (std::size_t e = 0; e < kElements; ++e) {
      double mean = 0;
      for (const Vector& model : models)
        mean += model[e] / kWorkers;
      for (const Vector& model : models)
        squares += (model[e] - mean) * (model[e] - mean) / kWorkers;
    }
    return std::sqrt(squares);
  };
  const Outer free{"diloco", "sgd", "matching", 0.5, 0.7}, pulled{"noloco", "sgd", "matching", 0.5, 0.7, 0.7};
  EXPECT_GT(spread(free, 1600), 1.5 * spread(free, 400));
  EXPECT_LT(spread(pulled, 1600), 1.25 * spread(pulled, 400));
  EXPECT_LT(spread(pulled, 400), spread(free, 400) / 3);
}

// A pull keeps the mean: over the workers phi moves by the mean of delta, whatever pairs there are.
TEST(OuterSteps, TheMeanOfSlowModelsMovesByTheMeanOfDelta) {
  support::run_world("inproc", 5, [](support::Worker& worker) {
    EngineOptions options = outer_options({"noloco", "sgd", "matching", 0.5, 0.7, 0.7}, 5);
    options.trigger = "every 2";
    options.bucket_bytes = 1 << 20;
    Quadratic<double> quadratic(worker, options, {6});
    quadratic.engine().start();
    double before = 0;
    for (int t = 0; t < 20; ++t) {
      quadratic.step();
      double phi = 0, delta = 0;
      for (const StateSpan& span : quadratic.engine().state()) {
        const double value = span.bytes.size() >= 6 * sizeof(double)
                                 ? reinterpret_cast<const double*>(span.bytes.data())[3]
                                 : 0;
        if (span.name.ends_with("state0")) phi = value;
        if (span.name.ends_with("state1")) delta = value;
      }
      double mean_phi = 0, mean_delta = 0;
      for (const double value : quadratic.engine().gather(phi))
        mean_phi += value / 5;
      for (const double value : quadratic.engine().gather(delta))
        mean_delta += value / 5;
      if (t > 1 && t % 2 == 1) {
        EXPECT_NEAR(mean_phi - before, mean_delta, 1e-12) << "step " << t;
      }
      if (t > 1 && t % 2 == 0) {
        EXPECT_EQ(mean_phi, before) << "inner steps leave phi alone";
      }
      before = mean_phi;
    }
    return std::string();
  });
}

// Only the differences are waited for: phi was published when the inner steps began.
TEST(OuterSteps, SlowModelsTravelDuringTheInnerSteps) {
  support::run_world("inproc", 4, [](support::Worker& worker) {
    EngineOptions options = outer_options({"noloco", "sgd", "matching", 0.5, 0.7, 0.7}, 4);
    options.trigger = "every 3";
    options.bucket_bytes = 1 << 20;
    Quadratic<float> quadratic(worker, options, {64});
    quadratic.engine().start();
    for (int t = 0; t < 9; ++t) {
      const StepReport report = quadratic.step();
      // Both vectors are read in the outer step. Of the two that it publishes one is for the next.
      EXPECT_EQ(report.bytes_read, t % 3 == 2 ? 2 * 64 * sizeof(float) : 0) << t;
      EXPECT_EQ(report.bytes_published, t % 3 == 2 ? 2 * 64 * sizeof(float) : 0) << t;
    }
    return std::string();
  });
}

// Push-sum where rows add up to 1 too: every weight stays 1, and it is adapt-then-combine.
TEST(Methods, OnDoublyStochasticRoundsPushSumHasAWeightOfOne) {
  const EngineOptions options = options_for("sgp", "sgd", "exp-directed");
  plain::Rule rule;
  rule.optimizer = "sgd";
  rule.lr = 0.05;
  rule.momentum = 0.9;
  graph::ScheduleOptions schedule = options.schedule;
  schedule.shape = graph::Shape::single_node(6);
  const plain::Problem problem = quadratic_problem(6, 20, schedule);
  const auto expected = plain::train("atc", rule, problem);
  const auto models = train_problem("inproc", options, problem, rule.lr);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_LT(largest_difference(models[i], expected[i]), 1e-12);
  support::run_world("inproc", 6, [&](support::Worker& worker) {
    Quadratic<double> quadratic(worker, options, {6});
    quadratic.engine().start();
    for (int t = 0; t < 10; ++t)
      quadratic.step();
    int weights = 0;
    for (const StateSpan& span : quadratic.engine().state()) {
      if (!span.name.ends_with("/weight")) continue;
      ++weights;
      EXPECT_NEAR(*reinterpret_cast<const double*>(span.bytes.data()), 1, 1e-14);
    }
    EXPECT_EQ(weights, 1);
    return std::string();
  });
}

}  // namespace
}  // namespace kith::engine
