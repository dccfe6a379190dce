#include <cmath>

#include <gtest/gtest.h>

#include "kith/sim/closed_forms.h"
#include "tests/sim/scenarios.h"

namespace kith::sim {
namespace {

// Free links, one bucket, normal backward: all-reduce pays the mean maximum over all workers, in every
// iteration.
TEST(Spread, AllReducePaysTheMaximum) {
  for (const int n : {1, 2, 16, 100}) {
    Scenario scenario = plain_scenario({.shape = graph::Shape::single_node(n), .buckets = 1});
    scenario.network.inside = {0, 1e15};
    scenario.job.buckets[0].backward = Distribution::normal(50e-3, 5e-3);
    scenario.iterations = 6000;
    scenario.seed = 4;
    const double expected = 10e-3 + 50e-3 + expected_normal_maximum(n) * 5e-3 + 1e-3;
    EXPECT_NEAR(simulate(scenario).iteration_s, expected, 4 * 5e-3 / std::sqrt(6000.0))
        << n << " workers, seed 4";
  }
}

TEST(Spread, NeighboursPayLessThanEverybody) {
  const graph::Shape shape = graph::Shape::single_node(64);
  Scenario scenario = plain_scenario({.shape = shape});
  scenario.network.inside = {0, 1e15};
  for (Bucket& bucket : scenario.job.buckets)
    bucket.backward = Distribution::lognormal(3e-3, 0.5);
  scenario.iterations = 600;
  const double all = simulate(scenario).iteration_s;
  scenario.schedule = schedule_of("complete", shape);
  const double complete = simulate(scenario).iteration_s;
  scenario.schedule = schedule_of("exp", shape);
  const double pairs = simulate(scenario).iteration_s;
  EXPECT_LT(pairs, complete);
  EXPECT_LE(complete, all * (1 + 1e-3));
  EXPECT_GT(pairs, scenario.job.compute_s());
}

TEST(Spread, AStragglerNowAndThen) {
  Scenario scenario = plain_scenario({.shape = graph::Shape::single_node(1)});
  scenario.job.straggler = {0.1, Distribution::constant(40e-3)};
  scenario.iterations = 20000;
  EXPECT_NEAR(simulate(scenario).iteration_s, 30e-3 + 4e-3, 5 * 12e-3 / std::sqrt(20000.0));
  EXPECT_NEAR(scenario.job.compute_s(), 34e-3, 1e-12);
}

TEST(Spread, ASlowWorkerSlowsWhomItMeets) {
  const graph::Shape shape = graph::Shape::single_node(4);
  Scenario scenario = plain_scenario({.shape = shape});
  scenario.network.inside = {0, 1e15};
  scenario.job.slowness = {1, 1, 1.5, 1};
  EXPECT_NEAR(simulate(scenario).iteration_s, 1.5 * 30e-3, 1e-6);
  scenario.schedule = schedule_of("exp", shape);
  scenario.iterations = 400;
  EXPECT_NEAR(simulate(scenario).iteration_s, 1.5 * 30e-3, 1e-3);
}

TEST(Spread, ABatchFactorMovesForwardAndBackwardTogether) {
  Scenario scenario = plain_scenario({.shape = graph::Shape::single_node(1)});
  scenario.job.batch = Distribution::lognormal(1, 0.3);
  scenario.iterations = 20000;
  const Result result = simulate(scenario);
  EXPECT_NEAR(result.iteration_s, 30e-3, 5 * 0.3 * 25e-3 / std::sqrt(20000.0));
  const double sigma = std::sqrt(std::log1p(0.09));
  const double low = 5e-3 + 25e-3 * std::exp(-1.6448536 * sigma - sigma * sigma / 2);
  const double high = 5e-3 + 25e-3 * std::exp(1.6448536 * sigma - sigma * sigma / 2);
  EXPECT_NEAR(result.low_s / low, 1, 0.02);
  EXPECT_NEAR(result.high_s / high, 1, 0.02);
}

}  // namespace
}  // namespace kith::sim
