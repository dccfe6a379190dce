#include "kith/sim/closed_forms.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kith/base/check.h"

namespace kith::sim {

double all_reduce_iteration_s(const EqualBuckets& job, double all_reduce_s) {
  const double n = job.count;
  return std::max(job.forward_s + n * job.backward_s + all_reduce_s,
                  job.forward_s + job.backward_s + n * all_reduce_s) +
         n * job.step_s;
}

double mix_iteration_s(const EqualBuckets& job, double mix_s) {
  const double n = job.count;
  return std::max({job.forward_s + n * (job.backward_s + job.step_s), n * mix_s, mix_s + job.step_s});
}

// The integral of x n phi(x) Phi(x)^(n-1) over [-10, 10] by Simpson's rule.
double expected_normal_maximum(int n) {
  KITH_CHECK_GE(n, 1, "a maximum of nothing");
  constexpr int kSteps = 20000;
  constexpr double kReach = 10;
  const double h = 2 * kReach / kSteps;
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = -kReach + i * h;
    const double below = 0.5 * std::erfc(-x / std::numbers::sqrt2);
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
    const double weight = i == 0 || i == kSteps ? 1 : (i % 2 == 1 ? 4 : 2);
    sum += weight * x * n * density * std::pow(below, n - 1);
  }
  return sum * h / 3;
}

}  // namespace kith::sim
