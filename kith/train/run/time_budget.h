#pragma once

#include <cstdint>

namespace kith::train {

struct TimeBudgetOptions {
  double seconds = 60;  // of training
  int stages = 8;       // equal parts of them
  // The first stage ends after these steps, whatever time they took: until then nothing is known.
  std::int64_t first_steps = 10;
};

// How many steps fit into a time, when all workers must end at the same one. The time is reckoned stage by
// stage: at the end of each the workers agree on what they have spent and the rest of the run is as many
// steps as fit what is left, at the pace of that stage. Knows no clock and nobody else: given the same
// numbers it says the same. One thread.
class TimeBudget {
 public:
  explicit TimeBudget(const TimeBudgetOptions& options);

  // Steps of the whole run, as far as is known: a very large number before the first reckoning, exact once
  // `next()` is it.
  std::int64_t steps() const { return state_.steps; }
  // Steps done when the workers reckon next; the end of the run after the last time.
  std::int64_t next() const { return state_.next; }

  // REQUIRES: `done` steps are done and took `spent` seconds, the same numbers on every worker, both of the
  // whole run.
  void reckon(std::int64_t done, double spent);

  // All that it has reckoned, for a worker that comes later.
  struct State {
    std::int64_t steps = 0, next = 0;
    // At the last reckoning.
    std::int64_t done = 0;
    double spent = 0;
  };
  const State& state() const { return state_; }
  void take_over(const State& state) { state_ = state; }

 private:
  const TimeBudgetOptions options_;
  State state_;
};

}  // namespace kith::train
