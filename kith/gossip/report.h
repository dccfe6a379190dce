#pragma once

#include <cstdint>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/ids.h"

namespace kith::gossip {

// What happened in one worker's part of one round. A missed neighbour is an ordinary outcome, counted here.
struct RoundReport {
  std::vector<WorkerId> late;    // gave up on them at the deadline
  std::vector<WorkerId> lost;    // they are gone
  double missing_weight = 0;     // weight of the missed neighbours, given to oneself
  double weight = 1;             // push-sum weight after the round; stays 1 on doubly stochastic schedules
  std::uint64_t bytes_read = 0;  // payload of the neighbours' versions
  Clock::Duration waited{};      // for neighbours' versions and for one's own slot
  double squared_shift = 0;      // |x after - x before|^2: the cheap consensus meter

  bool complete() const { return late.empty() && lost.empty(); }
};

}  // namespace kith::gossip
