#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kith/engine/bucketing.h"
#include "kith/engine/options.h"

namespace kith::engine {

// A model in buckets, and the rounds of the schedule that each is ahead.
struct ModelCut {
  std::vector<BucketPlan> plans;
  std::vector<std::int64_t> ahead;
};

// The same on every worker. `machines`: of each member. `exchanges`: whether the algorithm has rounds at all.
// Segments are split between buckets only where that makes iterations more even: where nodes talk to each
// other over links and whole segments would give one turn much more than another. A split segment lies at one
// address, so never in the alternating layout; on one machine that costs memory traffic and gains nothing.
ModelCut cut_model(std::span<const Segment> segments, const EngineOptions& options,
                   const graph::Schedule& schedule, std::span<const int> machines, bool exchanges);

}  // namespace kith::engine
