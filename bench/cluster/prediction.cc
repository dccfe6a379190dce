#include "bench/cluster/prediction.h"

#include "kith/engine/options.h"
#include "kith/graph/schedule.h"
#include "kith/sim/simulate.h"

namespace kith::bench {

double predict_aer(const Setup& setup, const Measured& measured) {
  using sim::Distribution;
  sim::Scenario scenario;
  scenario.placement = setup.shape();
  // Inside a host nothing travels: models are read where they lie, and that is part of the step.
  const sim::Link inside{0, 1e12};
  scenario.network = {inside, {0, measured.link_bytes_per_second}, measured.link_bytes_per_second};
  scenario.schedule = graph::make_schedule({.topology = "aer", .shape = scenario.placement});

  const double bytes = 4.0 * static_cast<double>(setup.problem.parameters());
  const auto bucket_bytes = static_cast<double>(engine::EngineOptions{}.bucket_bytes);
  const int buckets = std::max(1, static_cast<int>(bytes / bucket_bytes + 0.5));
  const double compute = measured.local_seconds - measured.local_step_seconds;
  scenario.job.forward = Distribution::constant(compute / 3);
  for (int b = 0; b < buckets; ++b) {
    scenario.job.buckets.push_back({bytes / buckets, Distribution::constant(compute * 2 / 3 / buckets),
                                    Distribution::constant(measured.local_step_seconds / buckets)});
  }
  return sim::simulate(scenario).iteration_s;
}

}  // namespace kith::bench
