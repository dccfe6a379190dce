#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kith::plan {

// Steps that a way of training needs for the loss of all-reduce, over all-reduce's steps, with the 90%
// interval.
struct StepsFactor {
  double factor = 1, low = 1, high = 1;
  bool measured = true;  // for this topology and number of workers; false: carried over from what was
  bool known = true;     // false: nothing like it was measured, and the numbers say nothing
};

// A row of what was measured (kith study quality, docs/study.md).
struct MeasuredFactor {
  std::string_view method = {};
  std::string_view topology = {};
  int workers = 0;
  int steps = 0;  // of the all-reduce runs whose loss was the goal
  double factor = 1, low = 1, high = 1;
  std::string_view source = {};
};

// The one place that knows the numbers; ascending in workers for each topology.
std::span<const MeasuredFactor> measured_factors();

// Of mixing on a topology. A topology without rows of its own has aer's: which neighbours a worker has
// matters little beside how many share a batch. Between two numbers of workers the logarithm of the factor
// grows with the logarithm of the workers, from 1 for one worker; beyond the last it goes on growing like
// that. REQUIRES: workers >= 1.
StepsFactor steps_factor(std::string_view topology, int workers);

// "1.15 (1.02 to 1.28)", with a ~ where it was carried over; "?" where it is not known.
std::string text_of(const StepsFactor& steps);

}  // namespace kith::plan
