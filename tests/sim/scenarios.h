#pragma once

#include <string>

#include "kith/sim/simulate.h"

namespace kith::sim {

inline std::shared_ptr<const graph::Schedule> schedule_of(const std::string& topology,
                                                          const graph::Shape& shape, std::uint64_t seed = 0) {
  return graph::make_schedule({.topology = topology, .shape = shape, .seed = seed});
}

// Equal buckets with constant times, on links fast enough to forget unless a test says otherwise.
struct Plain {
  graph::Shape shape = graph::Shape::single_node(4);
  double forward_s = 10e-3;
  double backward_s = 3e-3;
  double step_s = 1e-3;
  int buckets = 5;
  double bytes = 25e6;
};

inline Scenario plain_scenario(const Plain& plain) {
  Scenario scenario;
  scenario.placement = plain.shape;
  scenario.network = {{1e-6, 100e9}, {5e-6, 10e9}, 10e9};
  scenario.job.forward = Distribution::constant(plain.forward_s);
  scenario.job.buckets.assign(
      static_cast<std::size_t>(plain.buckets),
      {plain.bytes, Distribution::constant(plain.backward_s), Distribution::constant(plain.step_s)});
  scenario.iterations = 60;
  scenario.warm_up = 40;
  return scenario;
}

}  // namespace kith::sim
