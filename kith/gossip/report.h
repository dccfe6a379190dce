#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/ids.h"

namespace kith::gossip {

// What happened in one worker's part of one round. A missed neighbour is an ordinary outcome, counted here.
struct RoundReport {
  std::vector<WorkerId> read;    // whose versions are in the round
  std::vector<WorkerId> late;    // gave up on them at the deadline
  std::vector<WorkerId> lost;    // they are gone
  double missing_weight = 0;     // weight of the missed neighbours, given to oneself
  double weight = 1;             // push-sum weight after the round; stays 1 on doubly stochastic schedules
  std::uint64_t bytes_read = 0;  // payload of the neighbours' versions
  Clock::Duration waited{};      // for neighbours' versions and for one's own slot

  // Who is missing in a sum that another member made: this worker did not wait for it itself.
  std::optional<WorkerId> lacking = {};

  bool complete() const { return !missing(); }
  // The first whose part the round had to do without, here or where it was summed.
  std::optional<WorkerId> missing() const {
    if (!lost.empty()) return lost.front();
    if (!late.empty()) return late.front();
    return lacking;
  }
};

// Sums travel with a mark (PublishOptions::codec) that names who is missing in them; 0: nobody.
inline std::uint32_t mark_of(const RoundReport& report) {
  const auto missing = report.missing();
  return missing ? static_cast<std::uint32_t>(missing->value) + 1 : 0;
}
inline void note_mark(RoundReport& report, std::uint32_t mark) {
  if (mark != 0 && !report.lacking) report.lacking = WorkerId{static_cast<int>(mark) - 1};
}

}  // namespace kith::gossip
