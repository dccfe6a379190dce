#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "bench/figure6/bars.h"
#include "kith/sim/scenario.h"

namespace figure6 {

// A fitted physical quantity; everything else about the figure is fixed in model.cc.
struct Parameter {
  std::string name;
  std::string unit;
  double guess = 0;    // what labels and data sheets say
  double freedom = 0;  // how far, in natural logarithms, the guess may be off (one standard deviation)
};

// The parameters in the order in which `predict` takes their values.
const std::vector<Parameter>& parameters();

struct Settings {
  int iterations = 400;
  std::uint64_t seed = 6;
};

// The scenario of a bar. REQUIRES: one value for each parameter.
kith::sim::Scenario scenario_of(const Bar& bar, std::span<const double> values, const Settings& settings);

// Milliseconds per iteration.
double predict(const Bar& bar, std::span<const double> values, const Settings& settings);

}  // namespace figure6
