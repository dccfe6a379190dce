#pragma once

#include <cstdint>

#include "kith/plan/candidate.h"

namespace kith::plan {

// What a candidate costs in agreement between the workers.
struct Quality {
  // The factor by which the consensus distance of a random start shrinks in an iteration, on average until it
  // is a millionth (or over 1,000 rounds); 0 for all-reduce, 1 for never.
  double contraction = 0;
  int staleness = 0;  // iterations between publishing a model and mixing it
};

// Applies the schedule's rounds to one seeded random number per worker: cheap for thousands of workers.
// Directed schedules are followed with push-sum weights.
Quality quality_of(const graph::Schedule& schedule, int every, std::uint64_t seed);

// Of a candidate; all-reduce agrees exactly and at once.
Quality quality_of(const sim::Scenario& scenario);

}  // namespace kith::plan
