#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace kith::train::study {

// A mean with its 90% interval (Student's t). Of one number the interval is not known: low and high are NaN.
struct Estimate {
  double mean = 0, low = 0, high = 0;
  std::size_t count = 0;
};

// REQUIRES: not empty.
Estimate estimate(std::span<const double> values);

// The 95% quantile of Student's t. REQUIRES: degrees >= 1.
double student_t95(std::size_t degrees);

// How a statistic of repeats that all count alike (seeds) varies: its value over all of them, and an interval
// from leaving out one after the other (jackknife). Empty when the statistic is, for all or for all but one.
std::optional<Estimate> jackknife(
    std::size_t repeats, const std::function<std::optional<double>(std::span<const std::size_t>)>& statistic);

struct LengthLoss {
  double steps = 0, loss = 0;
};

struct Crossing {
  double steps = 0;
  bool outside = false;  // of the lengths that were run: on the straight line beyond the last two
};

// The number of steps at which a run ends with `loss`: on straight lines between runs of several lengths over
// the logarithm of their steps, where they come down to it first. Empty: one length, or a line that does not
// come down. REQUIRES: ascending steps.
std::optional<Crossing> steps_to_loss(std::span<const LengthLoss> lengths, double loss);

}  // namespace kith::train::study
