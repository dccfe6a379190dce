#include <cmath>

#include <gtest/gtest.h>

#include "kith/base/rng.h"
#include "kith/sim/closed_forms.h"
#include "tests/sim/scenarios.h"

namespace kith::sim {
namespace {

constexpr double kRelative = 1e-9;

// Random job and link speeds over three decades, so that every term of the maxima rules somewhere.
struct Case {
  EqualBuckets job;
  double bytes_per_s = 0;
};

Case random_case(Rng& rng) {
  const auto log_uniform = [&](double low, double high) { return low * std::pow(high / low, rng.uniform()); };
  return {{log_uniform(1e-4, 0.1), log_uniform(1e-4, 1e-2), log_uniform(1e-5, 1e-2),
           1 + static_cast<int>(rng.below(24))},
          log_uniform(1e8, 1e12)};
}

Scenario scenario_of(const Case& c, const graph::Shape& shape) {
  Scenario scenario =
      plain_scenario({shape, c.job.forward_s, c.job.backward_s, c.job.step_s, c.job.count, 25e6});
  scenario.network = {{2e-6, c.bytes_per_s}, {7e-6, c.bytes_per_s}, 2 * c.bytes_per_s};
  return scenario;
}

TEST(ClosedForm, AllReduce) {
  const std::uint64_t seed = 1;
  Rng rng(seed);
  for (int trial = 0; trial < 200; ++trial) {
    const Case c = random_case(rng);
    Scenario scenario = scenario_of(c, graph::Shape(std::vector<int>(3, 3)));
    for (const Collective collective : {Collective::ring, Collective::tree, Collective::three_hop}) {
      scenario.collective = collective;
      const double expected = all_reduce_iteration_s(c.job, all_reduce_costs(scenario)[0].seconds);
      EXPECT_NEAR(simulate(scenario).iteration_s / expected, 1, kRelative)
          << "seed " << seed << " trial " << trial;
    }
  }
}

TEST(ClosedForm, AllReduceWithoutOverlap) {
  Scenario scenario = plain_scenario({.shape = graph::Shape(std::vector<int>(2, 4))});
  scenario.overlap = Overlap::none;
  const double reduce = 5 * all_reduce_costs(scenario)[0].seconds;
  EXPECT_NEAR(simulate(scenario).iteration_s / (10e-3 + 5 * 4e-3 + reduce), 1, kRelative);
}

// Groups of everybody, pairs on one node, and pairs that all cross with a NIC to themselves: every round
// costs the same.
TEST(ClosedForm, Mixing) {
  const std::uint64_t seed = 2;
  Rng rng(seed);
  struct World {
    const char* topology;
    graph::Shape shape;
  };
  const std::vector<World> worlds{{"complete", graph::Shape(std::vector<int>(3, 3))},
                                  {"complete", graph::Shape::single_node(5)},
                                  {"ring", graph::Shape::single_node(8)},
                                  {"exp", graph::Shape::single_node(16)},
                                  {"exp", graph::Shape(std::vector<int>(16, 1))}};
  for (int trial = 0; trial < 60; ++trial) {
    const Case c = random_case(rng);
    for (const World& world : worlds) {
      Scenario scenario = scenario_of(c, world.shape);
      scenario.schedule = schedule_of(world.topology, world.shape);
      const bool everybody = scenario.schedule->name() == "complete";
      const double mix = everybody ? all_reduce_costs(scenario)[0].seconds
                                   : read_cost(scenario.network, world.shape.nodes() == 1, 25e6).seconds;
      const double expected = mix_iteration_s(c.job, mix);
      for (const MixAt where : {MixAt::backward, MixAt::step}) {
        scenario.mix_at = where;
        scenario.warm_up = 200;  // the slower cycle needs time to rule when two are close
        EXPECT_NEAR(simulate(scenario).iteration_s / expected, 1, kRelative)
            << world.topology << " seed " << seed << " trial " << trial << " buckets " << c.job.count;
      }
    }
  }
}

// `aer` between two nodes alternates: all inside, then one group of both. When the channel rules, an
// iteration takes the mean of the two rounds.
TEST(ClosedForm, AerAlternatesWhenTheChannelRules) {
  const graph::Shape shape(std::vector<int>(2, 4));
  Scenario scenario = plain_scenario({.shape = shape, .forward_s = 1e-4, .backward_s = 1e-4, .step_s = 1e-5});
  scenario.network = {{2e-6, 4e9}, {7e-6, 1e9}, 1e9};
  scenario.schedule = schedule_of("aer", shape);
  const double inside = group_cost(scenario.network, scenario.collective, {4, 1, 4, 4}, 25e6).seconds;
  const double joint = group_cost(scenario.network, scenario.collective, {8, 2, 4, 4}, 25e6).seconds;
  EXPECT_NEAR(simulate(scenario).iteration_s / (5 * (inside + joint) / 2), 1, kRelative);
}

// All four workers of a node cross at once in `exp`'s later rounds: the NIC carries four models, a flow only
// one.
TEST(ClosedForm, ANicIsShared) {
  const graph::Shape shape(std::vector<int>(2, 4));
  Scenario scenario = plain_scenario({.shape = shape, .forward_s = 1e-4, .backward_s = 1e-4, .step_s = 1e-5});
  scenario.network = {{0, 1e15}, {0, 1e9}, 2e9};
  scenario.schedule = schedule_of("exp", shape);
  scenario.iterations = 90;
  // One round of three crosses: 4 models of 5 x 25 MB at 2 GB/s, where one flow alone would take half that.
  const double crossing = 4 * 5 * 25e6 / 2e9;
  const double period = 3 * simulate(scenario).iteration_s;
  EXPECT_GT(period, crossing);
  EXPECT_LT(period, crossing * 1.3);
  scenario.network.nic_bytes_per_s = 1e15;
  EXPECT_LT(3 * simulate(scenario).iteration_s, crossing * 0.7);
}

// Two neighbours each: over one's own link inside a node, and through one's NIC between nodes, one after the
// other.
TEST(ClosedForm, NeighboursOfAStaticRing) {
  const std::uint64_t seed = 3;
  Rng rng(seed);
  for (int trial = 0; trial < 60; ++trial) {
    const Case c = random_case(rng);
    for (const graph::Shape& shape : {graph::Shape::single_node(8), graph::Shape(std::vector<int>(8, 1))}) {
      Scenario scenario = scenario_of(c, shape);
      scenario.network = {{0, c.bytes_per_s}, {0, c.bytes_per_s}, c.bytes_per_s};
      scenario.schedule = schedule_of("ring-static", shape);
      scenario.warm_up = 200;
      const double expected = mix_iteration_s(c.job, 2 * 25e6 / c.bytes_per_s);
      EXPECT_NEAR(simulate(scenario).iteration_s / expected, 1, kRelative)
          << shape.text() << " seed " << seed << " trial " << trial << " buckets " << c.job.count;
    }
  }
}

TEST(ClosedForm, ExpectedMaximumOfNormals) {
  EXPECT_NEAR(expected_normal_maximum(1), 0, 1e-9);
  EXPECT_NEAR(expected_normal_maximum(2), 0.5641895835, 1e-6);
  EXPECT_NEAR(expected_normal_maximum(3), 0.8462843753, 1e-6);
  EXPECT_NEAR(expected_normal_maximum(100), 2.5075936, 1e-5);
}

}  // namespace
}  // namespace kith::sim
