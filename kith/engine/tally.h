#pragma once

#include <algorithm>

#include "kith/engine/engine.h"
#include "kith/gossip/report.h"

namespace kith::engine {

// Adds a round to what a step reports.
inline void note(StepReport& tally, const gossip::RoundReport& round) {
  tally.waited += round.waited;
  tally.bytes_read += round.bytes_read;
  tally.missing_weight = std::max(tally.missing_weight, round.missing_weight);
  tally.late.insert(tally.late.end(), round.late.begin(), round.late.end());
  tally.lost.insert(tally.lost.end(), round.lost.begin(), round.lost.end());
}

}  // namespace kith::engine
