#pragma once

#include <algorithm>

#include "kith/engine/engine.h"
#include "kith/gossip/report.h"

namespace kith::engine {

// Adds what was taken of a neighbour, in one bucket or in several.
inline void note(StepReport& report, const PeerRead& read) {
  const auto known = std::ranges::find(report.read, read.peer, &PeerRead::peer);
  if (known == report.read.end()) {
    report.read.push_back(read);
    return;
  }
  known->steps = std::max(known->steps, read.steps);
  known->apart.add(read.apart);
}

// Adds a round to what a step reports; whom it read is told apart.
inline void note(StepReport& tally, const gossip::RoundReport& round) {
  tally.waited += round.waited;
  tally.bytes_read += round.bytes_read;
  tally.missing_weight = std::max(tally.missing_weight, round.missing_weight);
  tally.late.insert(tally.late.end(), round.late.begin(), round.late.end());
  tally.lost.insert(tally.lost.end(), round.lost.begin(), round.lost.end());
}

// Adds what one bucket's part of a step had to tell.
inline void note(StepReport& report, const StepReport& part) {
  report.waited += part.waited;
  report.bytes_read += part.bytes_read;
  report.bytes_published += part.bytes_published;
  report.missing_weight = std::max(report.missing_weight, part.missing_weight);
  report.consensus.add(part.consensus);
  report.update_squares += part.update_squares;
  for (const PeerRead& read : part.read)
    note(report, read);
  report.late.insert(report.late.end(), part.late.begin(), part.late.end());
  report.lost.insert(report.lost.end(), part.lost.begin(), part.lost.end());
}

}  // namespace kith::engine
