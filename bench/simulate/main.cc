// How fast the simulator is, and how its cost grows. Goal: 65,536 workers x 1,000 iterations x 20 buckets of
// `aer` with lognormal times per bucket and shared NICs in under 10 s and 2 GB on one core.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iostream>

#include <sys/resource.h>

#include "bench/common/report.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/sim/closed_forms.h"
#include "kith/sim/simulate.h"

namespace {

using kith::sim::Distribution;
using kith::sim::Scenario;

constexpr int kWorkersPerNode = 8;

struct Size {
  int workers = 0;
  int iterations = 0;
  int buckets = 0;
  double events() const { return static_cast<double>(workers) * iterations * buckets; }
};

enum class Spread { none, backward, everything };

Scenario scenario_of(const Size& size, Spread spread, const char* topology) {
  const kith::graph::Shape shape(
      std::vector<int>(static_cast<std::size_t>(size.workers / kWorkersPerNode), kWorkersPerNode));
  const auto spread_of = [](double mean_s, bool on) {
    return on ? Distribution::lognormal(mean_s, 0.2) : Distribution::constant(mean_s);
  };
  Scenario scenario;
  scenario.placement = shape;
  scenario.schedule = kith::graph::make_schedule({.topology = topology, .shape = shape});
  scenario.network = {{5e-6, 50e9}, {20e-6, 6e9}, 12e9};
  scenario.mix_at = kith::sim::MixAt::backward;
  scenario.job.forward = spread_of(20e-3, spread != Spread::none);
  const Distribution backward = spread_of(2e-3, spread != Spread::none);
  const Distribution step = spread_of(0.2e-3, spread == Spread::everything);
  scenario.job.buckets.assign(static_cast<std::size_t>(size.buckets), {25e6, backward, step});
  scenario.warm_up = 0;
  scenario.iterations = size.iterations;
  scenario.seed = 1;
  return scenario;
}

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

double timed(const Scenario& scenario) {
  const double start = processor_seconds();
  const kith::sim::Result result = kith::sim::simulate(scenario);
  const double took = processor_seconds() - start;
  if (!(result.iteration_s > 0)) throw kith::Error("a run that took no time");
  return took;
}

// A wrong simulator may not be timed: with no spread it must equal the closed form.
void verify() {
  Scenario scenario = scenario_of({64, 50, 20}, Spread::none, "complete");
  scenario.warm_up = 10;
  const kith::sim::Cost cost = kith::sim::all_reduce_costs(scenario)[0];
  const double expected = kith::sim::mix_iteration_s({20e-3, 2e-3, 0.2e-3, 20}, cost.seconds);
  const double got = kith::sim::simulate(scenario).iteration_s;
  if (std::abs(got - expected) > 1e-9 * expected)
    throw kith::Error(kith::cat("simulated ", got, " s, closed form ", expected, " s"));
}

void run(const kith::bench::Options& options, kith::bench::Report& report) {
  verify();
  std::printf("processor seconds of one core; 8 workers a node, 20 buckets\n%-9s %-12s %8s %10s %9s %9s\n",
              "topology", "spread", "workers", "iterations", "seconds", "ns/event");
  const auto show = [&](const char* topology, const char* name, Spread spread, const Size& size) {
    const double took = timed(scenario_of(size, spread, topology));
    const double each_ns = took / size.events() * 1e9;
    std::printf("%-9s %-12s %8d %10d %9.2f %9.2f\n", topology, name, size.workers, size.iterations, took,
                each_ns);
    std::fflush(stdout);
    report.measure(kith::cat(topology, " ", name, " ", size.workers, " workers"), each_ns, "ns/event");
    return took;
  };
  const int scale = options.quick ? 4 : 1;
  double least = 1e9;
  double most = 0;
  for (const int workers : {1024, 4096, 16384, 65536}) {
    const Size size{workers, 16384 * 1000 / workers / scale, 20};
    const double each = show("aer", "backward", Spread::backward, size) / size.events();
    least = std::min(least, each);
    most = std::max(most, each);
  }
  show("exp", "backward", Spread::backward, {65536, 100 / scale, 20});
  show("aer", "none", Spread::none, {65536, 400 / scale, 20});
  show("aer", "everything", Spread::everything, {65536, 400 / scale, 20});

  const Size goal{65536, 1000, 20};
  report.at_most("simulate-65536x1000x20-s", show("aer", "backward", Spread::backward, goal), 10);
  report.at_most("simulate-peak-gb", peak_bytes() / 1e9, 2);
  report.at_most("simulate-growth-of-cost-per-event", most / least, 2);
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = kith::bench::parse(argc, argv, "simulate", "The cost of simulating large worlds.");
  kith::bench::Report report("simulate");
  try {
    run(options, report);
  } catch (const std::exception& error) {
    std::cerr << "bench/simulate: " << error.what() << "\n";
    return 1;
  }
  return report.finish(options);
}
