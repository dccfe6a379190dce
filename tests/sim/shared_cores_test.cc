#include "kith/sim/shared_cores.h"

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "tests/sim/scenarios.h"

namespace kith::sim {
namespace {

// With a core for each worker nothing is shared: the recursion's own times.
TEST(SharedCores, WithEnoughCoresItIsTheRecursion) {
  Plain plain;
  plain.shape = graph::Shape::parse("2,2,2,2", "test");
  for (const double nic : {10e9, 1e9, 100e6}) {
    Scenario scenario = plain_scenario(plain);
    scenario.network.between.bytes_per_s = scenario.network.nic_bytes_per_s = nic;
    EXPECT_NEAR(simulate_shared(scenario, {.cores = 8}).iteration_s, simulate(scenario).iteration_s, 1e-9)
        << "all-reduce";
    scenario.schedule = schedule_of("complete", plain.shape);
    EXPECT_NEAR(simulate_shared(scenario, {.cores = 8}).iteration_s, simulate(scenario).iteration_s,
                1e-2 * simulate(scenario).iteration_s)
        << "complete: latencies of neighbouring buckets overlap here";
  }
}

// Half of the steps of aer cross: together the buckets need the link for a whole model in one step and not at
// all in the next, staggered for half a model in each.
TEST(SharedCores, StaggeredBucketsEvenOutTheLink) {
  Plain plain;
  plain.shape = graph::Shape::parse("1,1,1,1", "test");
  plain.buckets = 4;
  Scenario scenario = plain_scenario(plain);
  const double compute = scenario.job.compute_s();
  scenario.network.between.bytes_per_s = scenario.network.nic_bytes_per_s =
      scenario.job.bytes() / (1.8 * compute);
  scenario.schedule = schedule_of("aer", plain.shape);
  const Result together = simulate_shared(scenario, {.cores = 4});
  scenario.ahead = {0, 1, 2, 3};
  const Result staggered = simulate_shared(scenario, {.cores = 4});
  EXPECT_NEAR(staggered.nic_bytes, together.nic_bytes, 0.02 * together.nic_bytes);
  EXPECT_GT(together.iteration_s, 1.25 * compute);
  EXPECT_LT(staggered.iteration_s, 0.9 * together.iteration_s);
  EXPECT_GE(staggered.iteration_s, compute * (1 - 1e-9));
}

TEST(SharedCores, ComputeIsShared) {
  Scenario scenario = plain_scenario({});
  scenario.schedule = schedule_of("ring", scenario.placement);
  const double alone = scenario.job.compute_s();
  EXPECT_NEAR(simulate_shared(scenario, {.cores = 4}).iteration_s, alone, 1e-3 * alone);
  EXPECT_NEAR(simulate_shared(scenario, {.cores = 2}).iteration_s, 2 * alone, 1e-3 * alone);
  EXPECT_NEAR(simulate_shared(scenario, {.cores = 1}).iteration_s, 4 * alone, 1e-3 * alone);
}

// While some wait for the network the others compute faster, so that waiting costs less than on cores of
// their own.
TEST(SharedCores, WhoWaitsLeavesItsShare) {
  Plain plain;
  plain.shape = graph::Shape::parse("1,1,1,1", "test");
  plain.buckets = 1;
  Scenario scenario = plain_scenario(plain);
  scenario.network.between.bytes_per_s = scenario.network.nic_bytes_per_s = 25e6 / 40e-3;  // 40 ms a message
  scenario.schedule = schedule_of("aer", plain.shape);
  const double own_cores = simulate_shared(scenario, {.cores = 4}).iteration_s;
  const double shared = simulate_shared(scenario, {.cores = 2}).iteration_s;
  EXPECT_GT(shared, own_cores * 0.999);
  EXPECT_LT(shared, own_cores + scenario.job.compute_s());
  EXPECT_GT(simulate_shared(scenario, {.cores = 4}).waited_s, 0);
}

TEST(SharedCores, MessagesCostProcessorTime) {
  Plain plain;
  plain.shape = graph::Shape::parse("1,1", "test");
  Scenario scenario = plain_scenario(plain);
  scenario.schedule = schedule_of("ring", plain.shape);
  const double bytes = scenario.job.bytes();
  const double free = simulate_shared(scenario, {.cores = 2}).iteration_s;
  const double paid = simulate_shared(scenario, {.cores = 2, .seconds_per_byte = 1e-11}).iteration_s;
  EXPECT_NEAR(paid - free, 2 * bytes * 1e-11, 0.05 * bytes * 1e-11);
  const double on_free_cores = simulate_shared(scenario, {.cores = 4, .seconds_per_byte = 1e-11}).iteration_s;
  EXPECT_NEAR(on_free_cores, free, 0.05 * bytes * 1e-11);
}

// Passes over memory are the thread's that computes: a free core does not hide them, and a worker whose turn
// it is not pays nothing.
TEST(SharedCores, PassesOverMemoryLengthenWhatMixes) {
  constexpr double kPrice = 1e-11;
  Scenario scenario = plain_scenario({});
  const double bytes = scenario.job.bytes();
  const auto longer = [&](std::int64_t every) {
    scenario.every = static_cast<int>(every);
    const double free = simulate_shared(scenario, {.cores = 64}).iteration_s;
    return simulate_shared(scenario, {.cores = 64, .mixing_seconds_per_byte = kPrice}).iteration_s - free;
  };
  EXPECT_NEAR(longer(1), bytes * kPrice, 0.05 * bytes * kPrice) << "all-reduce";
  scenario.schedule = schedule_of("ring", scenario.placement);
  EXPECT_NEAR(longer(1), bytes * kPrice, 0.05 * bytes * kPrice);
  EXPECT_NEAR(longer(4), bytes * kPrice / 4, 0.05 * bytes * kPrice);
}

TEST(SharedCores, NeedsACore) {
  EXPECT_THROW(simulate_shared(plain_scenario({}), {.cores = 0}), InputError);
}

}  // namespace
}  // namespace kith::sim
