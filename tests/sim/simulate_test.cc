#include "kith/sim/simulate.h"

#include <gtest/gtest.h>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "tests/sim/scenarios.h"

namespace kith::sim {
namespace {

Scenario noisy(const std::string& topology, const graph::Shape& shape) {
  Scenario scenario = plain_scenario({.shape = shape});
  scenario.job.forward = Distribution::normal(10e-3, 1e-3);
  for (Bucket& bucket : scenario.job.buckets) {
    bucket.backward = Distribution::lognormal(3e-3, 0.3);
    bucket.step = Distribution::samples({0.9e-3, 1e-3, 1.2e-3});
  }
  if (!topology.empty()) scenario.schedule = schedule_of(topology, shape);
  scenario.seed = 9;
  return scenario;
}

// No method may be faster than computing alone, nor slower than doing everything one after the other.
TEST(Simulate, EveryScheduleStaysBetweenItsBounds) {
  for (const std::string& topology : graph::schedule_names()) {
    if (topology == "file") continue;
    for (const graph::Shape& shape :
         {graph::Shape::single_node(1), graph::Shape({4, 2, 1}), graph::Shape(std::vector<int>(4, 4)),
          graph::Shape(std::vector<int>(5, 3))}) {
      for (const MixAt where : {MixAt::backward, MixAt::step}) {
        Scenario scenario = plain_scenario({.shape = shape});
        scenario.schedule = schedule_of(topology, shape);
        scenario.mix_at = where;
        const Result result = simulate(scenario);
        const double compute = scenario.job.compute_s();
        EXPECT_GE(result.iteration_s, compute * (1 - 1e-12)) << topology << " " << shape.text();
        EXPECT_LE(result.iteration_s, compute + shape.workers() * result.channel_s + 1e-9)
            << topology << " " << shape.text();
        EXPECT_NEAR(result.iteration_s, compute + result.waited_s, 1e-9) << topology << " " << shape.text();
        EXPECT_GE(result.hidden, 0);
        EXPECT_LE(result.hidden, 1);
        EXPECT_LE(result.low_s, result.high_s);
      }
    }
  }
}

TEST(Simulate, StaggeredBucketsEvenOutTheLink) {
  Scenario scenario = plain_scenario({.shape = graph::Shape(std::vector<int>(4, 2)), .buckets = 8});
  const double compute = scenario.job.compute_s();
  scenario.network.between.bytes_per_s = scenario.network.nic_bytes_per_s =
      scenario.job.bytes() / (1.8 * compute);
  scenario.schedule = schedule_of("aer", scenario.placement);
  const Result together = simulate(scenario);
  scenario.ahead = {0, 1, 2, 3, 0, 1, 2, 3};
  const Result staggered = simulate(scenario);
  EXPECT_NEAR(staggered.nic_bytes, together.nic_bytes, 1e-6 * together.nic_bytes);
  EXPECT_GT(together.iteration_s, 1.25 * compute);
  EXPECT_LT(staggered.iteration_s, 0.9 * together.iteration_s);
  EXPECT_GE(staggered.iteration_s, compute * (1 - 1e-12));
}

// Two of the four buckets cross in every iteration, to two other nodes. The link is the bottleneck and
// nothing else: a message to one node does not wait for the one to another.
TEST(Simulate, StaggeredBucketsToDifferentNodesKeepTheLinkBusy) {
  Scenario scenario = plain_scenario({.shape = graph::Shape({1, 1, 1, 1}), .buckets = 4});
  const double compute = scenario.job.compute_s();
  scenario.network.between.bytes_per_s = scenario.network.nic_bytes_per_s =
      scenario.job.bytes() / (4 * compute);
  scenario.schedule = schedule_of("aer", scenario.placement);
  scenario.ahead = {0, 1, 2, 3};
  const Result result = simulate(scenario);
  EXPECT_NEAR(result.nic_bytes, scenario.job.bytes() / 2, 1);
  EXPECT_NEAR(result.iteration_s, 2 * compute, 0.1 * compute);
}

// What travels under forward and backward slows them down; what somebody waits for does not.
TEST(Simulate, MessagesCostComputingTime) {
  Scenario scenario = plain_scenario({.shape = graph::Shape({1, 1, 1, 1}), .buckets = 4});
  scenario.schedule = schedule_of("exp", scenario.placement);
  const double free_s = simulate(scenario).iteration_s;
  scenario.job.message_s_per_byte = 3e-3 / scenario.job.bytes();
  EXPECT_NEAR(simulate(scenario).iteration_s, free_s + 3e-3, 1e-4) << "all of it is hidden";
  scenario.network.between.bytes_per_s = scenario.network.nic_bytes_per_s =
      scenario.job.bytes() / (3 * free_s);
  const double slow_s = simulate(scenario).iteration_s;
  scenario.job.message_s_per_byte = 0;
  EXPECT_NEAR(slow_s, simulate(scenario).iteration_s, 0.5e-3) << "the link decides";
}

TEST(Simulate, AllBucketsAheadByThePeriodAreNotAhead) {
  Scenario scenario = noisy("aer", graph::Shape(std::vector<int>(4, 2)));
  const Result plain = simulate(scenario);
  scenario.ahead.assign(scenario.job.buckets.size(), scenario.schedule->period());
  EXPECT_NEAR(simulate(scenario).iteration_s, plain.iteration_s, 1e-9);
  scenario.ahead.pop_back();
  EXPECT_THROW(simulate(scenario), Bug);
}

TEST(Simulate, IsDeterministicForASeed) {
  for (const char* topology : {"", "aer", "exp", "ring-static"}) {
    const Scenario scenario = noisy(topology, graph::Shape(std::vector<int>(4, 4)));
    const Result first = simulate(scenario);
    const Result again = simulate(scenario);
    EXPECT_EQ(first.iteration_s, again.iteration_s) << topology;
    EXPECT_EQ(first.high_s, again.high_s) << topology;
    Scenario other = scenario;
    other.seed = 10;
    EXPECT_NE(first.iteration_s, simulate(other).iteration_s) << topology;
  }
}

TEST(Simulate, AWorldOfOneComputes) {
  for (const char* topology : {"", "complete", "aer", "exp"}) {
    Scenario scenario = plain_scenario({.shape = graph::Shape::single_node(1)});
    if (*topology) scenario.schedule = schedule_of(topology, scenario.placement);
    const Result result = simulate(scenario);
    EXPECT_NEAR(result.iteration_s, 30e-3, 1e-12) << topology;
    EXPECT_EQ(result.nic_bytes, 0) << topology;
  }
}

TEST(Simulate, TheClockMovesByTheRun) {
  VirtualClock clock;
  const Clock::Time before = clock.now();
  const Result result = simulate(plain_scenario({}), clock);
  EXPECT_NEAR(seconds(clock.now() - before), 100 * result.iteration_s, 1e-6);
  simulate(plain_scenario({}), clock);
  EXPECT_NEAR(seconds(clock.now() - before), 200 * result.iteration_s, 1e-6);
}

TEST(Simulate, CountsTheBytesOfANic) {
  const graph::Shape shape(std::vector<int>(2, 4));
  const double model = 5 * 25e6;
  Scenario scenario = plain_scenario({.shape = shape});
  EXPECT_NEAR(simulate(scenario).nic_bytes / model, 1, 1e-9);  // three-hop between two nodes
  scenario.collective = Collective::ring;
  EXPECT_NEAR(simulate(scenario).nic_bytes / model, 2 * 7.0 / 8, 1e-9);
  scenario.schedule = schedule_of("exp", shape);  // four pairs cross in one round of three
  EXPECT_NEAR(simulate(scenario).nic_bytes / model, 4.0 / 3, 1e-9);
  scenario.collective = Collective::three_hop;
  scenario.schedule = schedule_of("aer", shape);
  EXPECT_NEAR(simulate(scenario).nic_bytes / model, 0.5, 1e-9);
  scenario.wire = DType::bf16;
  EXPECT_NEAR(simulate(scenario).nic_bytes / model, 0.25, 1e-9);
  scenario.every = 4;
  EXPECT_NEAR(simulate(scenario).nic_bytes / model, 0.0625, 0.01);
  scenario.schedule =
      schedule_of("ring-static", shape);  // both neighbours, one of them across for two of four workers
  scenario.every = 1;
  scenario.wire = DType::f32;
  EXPECT_NEAR(simulate(scenario).nic_bytes / model, 2, 1e-9);
}

TEST(Simulate, RareMixingHidesMore) {
  const graph::Shape shape(std::vector<int>(4, 4));
  Scenario scenario = plain_scenario({.shape = shape});
  scenario.network.nic_bytes_per_s = scenario.network.between.bytes_per_s = 0.5e9;
  scenario.schedule = schedule_of("exp", shape);
  scenario.iterations = 240;
  double last = simulate(scenario).iteration_s;
  for (const int every : {2, 4, 8}) {
    scenario.every = every;
    const double now = simulate(scenario).iteration_s;
    EXPECT_LT(now, last) << every;
    last = now;
  }
}

TEST(Simulate, TakesMeasuredAllReduceTimes) {
  Scenario scenario = plain_scenario({});
  scenario.all_reduce_seconds.assign(5, 20e-3);
  EXPECT_NEAR(simulate(scenario).iteration_s, 10e-3 + 3e-3 + 5 * 20e-3 + 5e-3, 1e-9);
}

TEST(Simulate, RefusesWhatCannotRun) {
  Scenario scenario = plain_scenario({});
  scenario.job.buckets.clear();
  EXPECT_THROW(simulate(scenario), InputError);
  scenario = plain_scenario({});
  scenario.network.nic_bytes_per_s = 0;
  EXPECT_THROW(simulate(scenario), InputError);
  scenario = plain_scenario({});
  scenario.job.slowness = {1, 2};
  EXPECT_THROW(simulate(scenario), InputError);
  scenario = plain_scenario({});
  scenario.iterations = 0;
  EXPECT_THROW(simulate(scenario), InputError);
  scenario = plain_scenario({});
  scenario.schedule = schedule_of("complete", graph::Shape::single_node(5));
  EXPECT_THROW(simulate(scenario), Bug);
}

}  // namespace
}  // namespace kith::sim
