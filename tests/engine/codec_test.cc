// Methods that send encoded differences: against the recursion of the page, and what their papers promise.
#include "kith/kernels/codec.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "kith/optim/methods.h"
#include "tests/engine/method_support.h"

namespace kith::engine {
namespace {

using plain::Vector;

struct Case {
  std::string algorithm, plain, optimizer, topology, codec;
  double consensus_step = 0;
  std::string order = "adapt-first";
};

EngineOptions coded(const std::string& algorithm, const std::string& optimizer, const std::string& topology,
                    const std::string& codec) {
  EngineOptions options = options_for(algorithm, optimizer, topology);
  options.bucket_bytes = 1 << 20;  // a codec's blocks lie in one bucket
  options.codec = codec;
  return options;
}

class Coded : public testing::TestWithParam<Case> {};

TEST_P(Coded, EqualsThePlainLoops) {
  const Case& c = GetParam();
  constexpr int kWorkers = 5;
  EngineOptions options = coded(c.algorithm, c.optimizer, c.topology, c.codec);
  options.optimizer.momentum = 0;
  options.optimizer.beta2 = 0.98;
  options.method.order = optim::parse_order(c.order);
  options.consensus_step = c.consensus_step;
  options.schedule.shape = graph::Shape::single_node(kWorkers);
  plain::Rule rule;
  rule.optimizer = c.optimizer;
  rule.lr = 0.05;
  rule.beta2 = 0.98;
  plain::Problem problem = quadratic_problem(kWorkers, 15, options.schedule);
  problem.consensus_step =
      c.consensus_step > 0 ? c.consensus_step : kernels::make_codec<double>(c.codec)->consensus_step();
  problem.codec = [&c](const Vector& x) {
    if (c.codec == "sign") return plain::sign_codec(x);
    return c.codec == "full" ? x : plain::top_codec(x, 8);
  };
  const auto expected = plain::train(c.plain, rule, problem);
  for (const std::string& backend : support::all_backends()) {
    const auto models = train_problem(backend, options, problem, rule.lr);
    for (std::size_t i = 0; i < kWorkers; ++i)
      EXPECT_LT(largest_difference(models[i], expected[i]), 1e-12) << backend << ", worker " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Engine, Coded,
    testing::Values(Case{"choco", "choco", "sgd", "ring-static", "sign"},
                    Case{"choco", "choco", "sgd", "exp", "top-k 0.25", 0.3},
                    Case{"choco", "choco-mix-first", "sgd", "ring-static", "sign", 0, "mix-first"},
                    Case{"cd-adam", "choco", "adam", "ring", "sign", 0.5},
                    Case{"cd-adam", "choco-mix-first", "adam", "exp", "top-k 0.25", 0, "mix-first"},
                    Case{"cd-adam", "atc", "adam", "aer", "full"}, Case{"awc", "awc", "adam", "exp", "full"},
                    Case{"q-push", "sgp", "sgd", "random-directed", "full"},
                    Case{"q-push", "q-push", "sgd", "random-directed", "full"}),
    [](const auto& test) {
      std::string name = cat(test.param.algorithm, "_", test.index);
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

// Mixing alone, from models of their own. Returns everybody's values of the first element after each step,
// times their push-sum weight.
struct Gossip {
  std::vector<Vector> models;  // by worker: the last model
  Vector weights;              // by worker: push-sum's
  Vector mean;                 // of the first models
};

Gossip gossip(EngineOptions options, int workers, int steps) {
  options.same_start = false;
  options.schedule.shape = graph::Shape::single_node(workers);
  Gossip all{
      std::vector<Vector>(static_cast<std::size_t>(workers)), Vector(static_cast<std::size_t>(workers)), {}};
  support::run_world("inproc", workers, [&](support::Worker& worker) {
    Quadratic<double> quadratic(worker, options, {64});
    quadratic.engine().start();
    const Vector before = quadratic.model();
    for (const double value : before) {
      const Vector everybody = quadratic.engine().gather(value);
      if (worker.rank != 0) continue;
      double sum = 0;
      for (const double one : everybody)
        sum += one;
      all.mean.push_back(sum / workers);
    }
    quadratic.backward();
    quadratic.inputs()[0].gradient = nullptr;
    for (int t = 0; t < steps; ++t)
      quadratic.engine().step(quadratic.inputs(), {});
    const auto rank = static_cast<std::size_t>(worker.rank);
    all.models[rank] = quadratic.model();
    for (const StateSpan& span : quadratic.engine().state()) {
      if (span.name.ends_with("/weight")) std::memcpy(&all.weights[rank], span.bytes.data(), sizeof(double));
    }
    return std::string();
  });
  return all;
}

double error_of(const Gossip& result, bool biased = false) {
  double worst = 0;
  for (std::size_t i = 0; i < result.models.size(); ++i) {
    for (std::size_t e = 0; e < result.mean.size(); ++e) {
      const double value = result.models[i][e] * (biased ? result.weights[i] : 1);
      worst = std::max(worst, std::abs(value - result.mean[e]));
    }
  }
  return worst;
}

double weight_of(const Gossip& result) {
  double sum = 0;
  for (const double one : result.weights)
    sum += one;
  return sum;
}

// Mass: the sum of what is pushed is that of the start.
void expect_mass(const Gossip& result, const std::string& codec) {
  for (std::size_t e = 0; e < result.mean.size(); ++e) {
    double mass = 0;
    for (std::size_t i = 0; i < result.models.size(); ++i)
      mass += result.models[i][e] * result.weights[i];
    EXPECT_NEAR(mass, result.mean[e] * static_cast<double>(result.models.size()), 1e-12) << codec;
  }
}

// arXiv 2002.09964: exact where what is pushed comes to rest, whatever the bits.
TEST(QPush, ConvergesToTheMean) {
  for (const char* codec : {"full", "int8", "qsgd 6", "qsgd 8"}) {
    const Gossip result = gossip(coded("q-push", "sgd", "exp-directed", codec), 7, 120);
    EXPECT_LT(error_of(result), 1e-6) << codec;
    EXPECT_NEAR(weight_of(result), 7, 1e-12) << codec;
    expect_mass(result, codec);
  }
}

// The same digraph in every round, of 10 workers: a ring with chords, whose rows do not add up to 1. What is
// pushed comes to rest there, and not where rounds differ.
class StaticDigraph {
 public:
  StaticDigraph() : folder_("kith-digraph"), path_(std::filesystem::path(folder_.path()) / "edges.json") {
    std::ofstream file(path_);
    file
        << R"({"workers": 10, "directed": true, "edges": [[0, 4], [0, 7], [2, 6], [3, 9], [5, 1], [5, 8], [8, 3])";
    for (int i = 0; i < 10; ++i)
      file << ", [" << i << ", " << (i + 1) % 10 << "]";
    file << "]}";
  }
  graph::ScheduleOptions schedule() const {
    return {.topology = "file", .shape = graph::Shape::single_node(10), .file = path_.string()};
  }

 private:
  TempFolder folder_;
  std::filesystem::path path_;
};

// Encoded differences cost no iterations: 8 and 6 bits bring the error down as fast as full precision does.
TEST(QPush, ConvergesAsFastAsInFull) {
  const StaticDigraph digraph;
  const auto iterations = [&](const char* codec) {
    EngineOptions options = coded("q-push", "sgd", "file", codec);
    options.schedule = digraph.schedule();
    for (int steps = 20; steps < 200; steps += 10)
      if (error_of(gossip(options, 10, steps)) < 1e-6) return steps;
    return 200;
  };
  const int full = iterations("full");
  EXPECT_LT(full, 120);
  for (const char* codec : {"qsgd 8", "qsgd 6", "qsgd-max 4"})
    EXPECT_LE(iterations(codec), full + 20) << codec;
}

// With noisy gradients, too: how far from the optimum the models are goes with the noise, not with the bits.
TEST(QPush, LearnsAsInFull) {
  constexpr int kWorkers = 10;
  const StaticDigraph digraph;
  const Vector best = mean_target(kWorkers);
  EngineOptions options = coded("sgp", "sgd", "file", "");
  options.optimizer.momentum = 0;
  options.schedule = digraph.schedule();
  plain::Problem problem = quadratic_problem(kWorkers, 200, options.schedule);
  problem.gradient = [](int worker, int t, const Vector& x) {
    Rng rng(hash_words(29, worker, t));
    Vector gradient = x;
    const Vector target = target_of(worker);
    for (std::size_t e = 0; e < x.size(); ++e)
      gradient[e] += rng.normal() - target[e];
    return gradient;
  };
  const auto gap = [&] {
    double sum = 0;
    for (const Vector& model : train_problem("inproc", options, problem, 0.03))
      for (std::size_t e = 0; e < kElements; ++e)
        sum += (model[e] - best[e]) * (model[e] - best[e]) / kWorkers;
    return sum;
  };
  const double full = gap();
  options.algorithm = "q-push";
  for (const char* codec : {"qsgd 5", "qsgd 6", "qsgd 8"}) {
    options.codec = codec;
    EXPECT_NEAR(gap() / full, 1, 0.1) << codec;
  }
}

// Where rows do not add up to 1, the weight makes the limit right; without it it is wrong.
TEST(QPush, IsWrongWithoutTheWeight) {
  EngineOptions options = coded("q-push", "sgd", "random-directed", "full");
  options.schedule.degree = 2;
  const Gossip result = gossip(options, 7, 90);
  EXPECT_LT(error_of(result), 1e-6);
  EXPECT_GT(error_of(result, true), 1e-2);
  EXPECT_NEAR(weight_of(result), 7, 1e-12);
  expect_mass(result, "full");
  options.codec = "qsgd 6";
  expect_mass(gossip(options, 7, 90), "qsgd 6");
}

// Symmetric weights keep the mean, whatever the codec; and models that rest come together.
TEST(Choco, KeepsTheMeanAndAgrees) {
  for (const char* codec : {"sign", "top-k 0.1", "random-k 0.2", "qsgd 4"}) {
    for (const char* topology : {"ring-static", "exp"}) {
      const EngineOptions options = coded("choco", "sgd", topology, codec);
      const Gossip result = gossip(options, 5, 250);
      EXPECT_LT(error_of(result), std::string(codec) == "sign" ? 0.03 : 1e-3) << codec << " on " << topology;
      for (std::size_t e = 0; e < result.mean.size(); ++e) {
        double sum = 0;
        for (const Vector& model : result.models)
          sum += model[e];
        EXPECT_NEAR(sum / 5, result.mean[e], 1e-12) << codec << " on " << topology;
      }
    }
  }
}

// With a constant rate DSGD stops somewhere near the optimum; encoded differences stop about there too.
TEST(Choco, ComesAsNearToTheOptimumAsDsgd) {
  constexpr int kWorkers = 8;
  const Vector best = mean_target(kWorkers);
  EngineOptions options = options_for("dsgd", "sgd", "ring-static");
  options.optimizer.momentum = 0;
  options.bucket_bytes = 1 << 20;
  options.schedule.shape = graph::Shape::single_node(kWorkers);
  const plain::Problem problem = quadratic_problem(kWorkers, 300, options.schedule);
  const auto error = [&] {
    double worst = 0;
    for (const Vector& model : train_problem("inproc", options, problem, 0.03))
      worst = std::max(worst, largest_difference(model, best));
    return worst;
  };
  const double plain_error = error();
  options.algorithm = "choco";
  for (const char* codec : {"sign", "qsgd 4", "int8", "top-k 0.25"}) {
    options.codec = codec;
    EXPECT_LT(error(), 3 * plain_error) << codec;
  }
}

// On a ring everybody has two neighbours, whose messages are prefix and code; the first ones are whole.
TEST(Choco, MessagesAreAsLongAsTheCodecSays) {
  for (const char* algorithm : {"choco", "awc"}) {
    support::run_world("inproc", 4, [&](support::Worker& worker) {
      EngineOptions options = coded(algorithm, "sgd", "ring-static", "sign");
      options.trigger = "every 2";
      Quadratic<float> quadratic(worker, options, {1024});
      quadratic.engine().start();
      for (int t = 0; t < 6; ++t) {
        const StepReport report = quadratic.step();
        const std::uint64_t code = 1024 / 8 + 4, whole = 1024 * 4;
        EXPECT_EQ(report.bytes_read, t % 2 == 0 ? 0 : 2 * (16 + (t == 1 ? whole : code))) << t;
      }
      return std::string();
    });
  }
}

TEST(Codecs, AreRefusedWhereTheyCannotWork) {
  const auto problem = [](EngineOptions options) {
    try {
      validate(options);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(problem(coded("awc", "adamw", "exp", "sign")), "");
  EXPECT_NE(problem(coded("choco", "sgd", "exp", "")).find("codec"), std::string::npos);
  EXPECT_NE(problem(coded("dsgt", "sgd", "exp", "sign")), "");
  EXPECT_NE(problem(coded("allreduce", "sgd", "exp", "sign")), "");
  EXPECT_NE(problem(coded("q-push", "sgd", "exp-directed", "qsgd 2")).find("cannot converge"),
            std::string::npos);
  EXPECT_NE(problem(coded("q-push", "sgd", "exp-directed", "sign")).find("cannot converge"),
            std::string::npos);
  EngineOptions options = coded("awc", "adamw", "exp", "sign");
  options.wire = DType::bf16;
  EXPECT_NE(problem(options), "");
  options = coded("awc", "adamw", "exp", "sign");
  options.consensus_step = 1.5;
  EXPECT_NE(problem(options), "");
  options = coded("awc", "adamw", "exp", "");
  options.consensus_step = 0.5;
  EXPECT_NE(problem(options), "");
}

}  // namespace
}  // namespace kith::engine
