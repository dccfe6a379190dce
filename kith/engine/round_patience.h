#pragma once

#include <cstddef>
#include <vector>

#include "kith/base/clock.h"

namespace kith::engine {

struct RoundPatienceOptions {
  Clock::Duration longest{};  // EngineOptions::patience
  Clock::Duration least = std::chrono::seconds(30);
  double times = 10;          // of the quantile
  double quantile = 0.99;     // of the last steps' durations
  std::size_t steps = 256;    // that many last ones
  std::size_t at_least = 16;  // before so many are known: the longest
};

// Note [Deadlines that set themselves]
// How long a step's rounds wait for a neighbour that lives, told from the run itself: `times` the time that
// almost all of this worker's last steps took, from the beginning of one to the beginning of the next, so
// that evaluations and slow neighbours count. Never less than `least`, so that a pause of some seconds (a
// stopped process, a full disk, a page fault storm) is waited out; never more than `longest`. Who comes later
// is left out of the round, its weight goes to oneself, and the step's report names it. All rounds of a step
// end at one deadline: a neighbour that stands still costs a step the patience once, however many buckets
// there are.
//
// It bounds the reading alone. A neighbour that has not read what was published holds its slot, and the wait
// for that one is bounded by EngineOptions::patience.

// One thread.
class RoundPatience {
 public:
  explicit RoundPatience(const RoundPatienceOptions& options);

  void begin_step(Clock::Time now);
  Clock::Duration now() const { return patience_; }

 private:
  void reckon();

  const RoundPatienceOptions options_;
  Clock::Time began_{};                 // the last step
  std::vector<Clock::Duration> taken_;  // a ring
  std::size_t steps_ = 0;
  Clock::Duration patience_;
};

}  // namespace kith::engine
