// What must not move, for every algorithm with every optimizer: a parameter without a gradient, and a whole
// model in a step that is skipped. Both are mixed all the same.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "kith/graph/matrix.h"
#include "kith/optim/algorithm.h"
#include "kith/optim/methods.h"
#include "tests/engine/engine_support.h"

namespace kith::engine {
namespace {

constexpr int kWorkers = 3;
constexpr std::size_t kFrozen = 7;  // elements of segment 0

struct Case {
  std::string algorithm, optimizer;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& algorithm : optim::algorithm_names()) {
    if (optim::method_of(algorithm).takes_outer) continue;  // mixes what moved, not models
    for (const std::string& optimizer : optim::optimizer_names()) {
      if (optim::takes(algorithm, optimizer)) all.push_back({algorithm, optimizer});
    }
  }
  return all;
}

class Unmoved : public testing::TestWithParam<Case> {
 protected:
  EngineOptions options() const {
    const bool directed = optim::make_algorithm<double>(GetParam().algorithm)->needs_directed_schedule();
    EngineOptions options =
        options_for(GetParam().algorithm, GetParam().optimizer, directed ? "exp-directed" : "ring");
    options.schedule.shape = graph::Shape::single_node(kWorkers);
    options.same_start = false;  // so that mixing shows
    if (optim::method_of(GetParam().algorithm).codec == optim::Method::Codec::needed) options.codec = "full";
    options.bucket_bytes = 1;  // a bucket for each parameter
    return options;
  }

  bool exchanges() const { return !optim::make_algorithm<double>(GetParam().algorithm)->channels().empty(); }

  // The optimizer's vectors and the parameters' own steps, by name.
  std::map<std::string, std::vector<std::byte>> optimizer_state(Engine& engine) const {
    const int states = optim::make_local_step<double>(engine.options().optimizer)->states();
    std::map<std::string, std::vector<std::byte>> found;
    for (const StateSpan& span : engine.state()) {
      const std::string last = span.name.substr(span.name.rfind('/') + 1);
      bool kept = last == "steps";
      for (int k = 0; k < states; ++k)
        kept = kept || last == cat("state", k);
      if (kept) found[span.name].assign(span.bytes.begin(), span.bytes.end());
    }
    return found;
  }

  // What rounds t and t + 1, ... alone make of a value per worker, push-sum's division included.
  Eigen::VectorXd mixed(const Eigen::VectorXd& values, std::int64_t first, std::int64_t rounds) const {
    if (!exchanges()) return values;
    const auto schedule = graph::make_schedule(options().schedule);
    // Of push-sum's own weights, only those of this test's start are known here.
    Eigen::VectorXd weights = Eigen::VectorXd::Ones(kWorkers);
    for (std::int64_t t = 0; t < first; ++t)
      weights = graph::mixing_matrix(*schedule, t) * weights;
    Eigen::VectorXd sums = values.cwiseProduct(weights);
    for (std::int64_t t = first; t < first + rounds; ++t) {
      sums = graph::mixing_matrix(*schedule, t) * sums;
      weights = graph::mixing_matrix(*schedule, t) * weights;
    }
    return sums.cwiseQuotient(weights);
  }

  // Collective: whether the first `count` elements of everybody's model are those of `before`, mixed.
  void expect_only_mixed(Quadratic<double>& quadratic, Rank rank, const std::vector<double>& before,
                         std::size_t count, std::int64_t first, std::int64_t rounds) const {
    const std::vector<double> after = quadratic.model();
    for (std::size_t e = 0; e < count; ++e) {
      const std::vector<double> all = quadratic.engine().gather(before[e]);
      const Eigen::VectorXd expected =
          mixed(Eigen::Map<const Eigen::VectorXd>(all.data(), kWorkers), first, rounds);
      EXPECT_NEAR(after[e], expected[rank], 1e-13) << "element " << e;
    }
  }
};

TEST_P(Unmoved, ParameterWithoutGradientIsOnlyMixed) {
  support::run_world("inproc", kWorkers, [&](support::Worker& worker) {
    Quadratic<double> quadratic(worker, options());
    quadratic.engine().start();
    const std::vector<double> before = quadratic.model();
    const auto state = optimizer_state(quadratic.engine());
    for (int t = 0; t < 5; ++t) {
      quadratic.backward();
      quadratic.inputs()[0].gradient = nullptr;
      quadratic.engine().step(quadratic.inputs(), {});
    }
    expect_only_mixed(quadratic, worker.rank, before, kFrozen, 0, 5);
    EXPECT_NE(quadratic.model()[kFrozen], before[kFrozen]) << "the others move";
    // Segment 0 is the last bucket's.
    const std::string bucket = cat("bucket", quadratic.engine().buckets() - 1, "/");
    for (const auto& [name, bytes] : optimizer_state(quadratic.engine())) {
      EXPECT_EQ(bytes == state.at(name), name.find(bucket) != std::string::npos) << name;
    }
    return std::string();
  });
}

// Frozen after it has moved: its moments, and what dsgt tracks of it, are not zero.
TEST_P(Unmoved, ParameterThatLosesItsGradientIsOnlyMixed) {
  support::run_world("inproc", kWorkers, [&](support::Worker& worker) {
    Quadratic<double> quadratic(worker, options());
    quadratic.engine().start();
    for (int t = 0; t < 3; ++t)
      quadratic.step();
    const std::vector<double> before = quadratic.model();
    for (int t = 0; t < 3; ++t) {
      quadratic.backward();
      quadratic.inputs()[0].gradient = nullptr;
      quadratic.engine().step(quadratic.inputs(), {});
    }
    expect_only_mixed(quadratic, worker.rank, before, kFrozen, 3, 3);
    return std::string();
  });
}

TEST_P(Unmoved, SkippedStepOnlyMixes) {
  support::run_world("inproc", kWorkers, [&](support::Worker& worker) {
    Quadratic<double> quadratic(worker, options());
    quadratic.engine().start();
    for (int t = 0; t < 3; ++t)
      quadratic.step();
    const std::vector<double> before = quadratic.model();
    const auto state = optimizer_state(quadratic.engine());
    quadratic.backward();
    quadratic.spoil(2, std::numeric_limits<double>::infinity());
    EXPECT_TRUE(quadratic.engine().step(quadratic.inputs(), {.non_finite = NonFinite::skip}).skipped);
    expect_only_mixed(quadratic, worker.rank, before, before.size(), 3, 1);
    EXPECT_EQ(optimizer_state(quadratic.engine()), state);

    // Worker 1 alone skips; by all-reduce its inf is everybody's.
    quadratic.backward();
    if (worker.rank == 1) quadratic.spoil(0, std::numeric_limits<double>::quiet_NaN());
    const StepReport alone = quadratic.engine().step(quadratic.inputs(), {.non_finite = NonFinite::skip});
    EXPECT_EQ(alone.skipped, worker.rank == 1 || GetParam().algorithm == "allreduce");
    EXPECT_EQ(optimizer_state(quadratic.engine()) == state, alone.skipped);

    EXPECT_FALSE(quadratic.step({.non_finite = NonFinite::skip}).skipped);
    EXPECT_TRUE(std::isfinite(quadratic.engine().consensus_distance()));
    EXPECT_EQ(quadratic.engine().steps(), 6);
    return std::string();
  });
}

INSTANTIATE_TEST_SUITE_P(Engine, Unmoved, testing::ValuesIn(cases()), [](const auto& test) {
  std::string name = test.param.algorithm + "_" + test.param.optimizer;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Unmoved, SkippedStepOnEveryKindOfDevice) {
  for (const Memory memory : {Memory::host, Memory::windows, Memory::copies}) {
    support::run_world("inproc", 2, [&](support::Worker& worker) {
      EngineOptions options = options_for("awc", "sgd", "complete");
      options.same_start = false;
      Quadratic<double> quadratic(worker, options, {7, 1, 40, 16}, memory);
      quadratic.engine().start();
      const std::vector<double> before = quadratic.model();
      quadratic.backward();
      quadratic.spoil(2, std::numeric_limits<double>::infinity());
      const StepReport report = quadratic.engine().step(quadratic.inputs(), {.non_finite = NonFinite::skip});
      EXPECT_TRUE(report.skipped);
      EXPECT_FALSE(std::isfinite(report.gradient_norm.get()));
      const auto others = quadratic.engine().gather(before[0]);
      EXPECT_NEAR(quadratic.model()[0], (others[0] + others[1]) / 2, 1e-15);
      return std::string();
    });
  }
}

}  // namespace
}  // namespace kith::engine
