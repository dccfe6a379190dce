#include "kith/train/run/time_budget.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kith::train {

TimeBudget::TimeBudget(const TimeBudgetOptions& options)
    : options_(options), steps_(std::numeric_limits<std::int64_t>::max()), next_(options.first_steps) {}

void TimeBudget::reckon(std::int64_t done, double spent) {
  const auto fitting = [&](double seconds) {
    const double pace = (spent - spent_) / static_cast<double>(std::max<std::int64_t>(1, done - done_));
    return static_cast<std::int64_t>(std::llround(seconds / std::max(pace, 1e-9)));
  };
  const double stage = options_.seconds / options_.stages;
  const double stage_end = stage * (std::floor(spent / stage + 0.5) + 1);
  steps_ = done + std::max<std::int64_t>(0, fitting(options_.seconds - spent));
  next_ = std::min(steps_, done + std::max<std::int64_t>(1, fitting(stage_end - spent)));
  done_ = done;
  spent_ = spent;
}

}  // namespace kith::train
