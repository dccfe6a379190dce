#include "kith/train/run/time_budget.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kith::train {

TimeBudget::TimeBudget(const TimeBudgetOptions& options)
    : options_(options),
      state_{.steps = std::numeric_limits<std::int64_t>::max(), .next = options.first_steps} {}

void TimeBudget::reckon(std::int64_t done, double spent) {
  const auto fitting = [&](double seconds) {
    const double pace =
        (spent - state_.spent) / static_cast<double>(std::max<std::int64_t>(1, done - state_.done));
    return static_cast<std::int64_t>(std::llround(seconds / std::max(pace, 1e-9)));
  };
  const double stage = options_.seconds / options_.stages;
  const double stage_end = stage * (std::floor(spent / stage + 0.5) + 1);
  const std::int64_t steps = done + std::max<std::int64_t>(0, fitting(options_.seconds - spent));
  const std::int64_t next = std::min(steps, done + std::max<std::int64_t>(1, fitting(stage_end - spent)));
  state_ = {steps, next, done, spent};
}

}  // namespace kith::train
