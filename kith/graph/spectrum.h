#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kith/graph/schedule.h"

namespace kith::graph {

// How fast a schedule brings models together.
//
// Let P be a product of consecutive rounds. Its *deviation* is the largest singular value of P - 11'/n: the
// factor by which the consensus distance of the worst starting point shrinks. For one round that is the
// second singular value of W. For a directed schedule the models that matter are push-sum's, x / w with both
// mixed by the same columns from w = 1, so P is first divided by its row sums: deviation = |diag(P1)^-1 P -
// 11'/n|. (For doubly stochastic rounds the two agree; a directed deviation may exceed 1 for a while.)
struct Spectrum {
  std::vector<double> per_round;             // deviation of each round of a period
  std::vector<double> contraction_by_start;  // deviation of a whole period begun at each round of it
  double contraction = 0;                    // the largest of those
  // Rounds, from round 0, after which P is 11'/n to 1e-12, having been further than 1e-6 from it a round
  // before (so that slow convergence does not count); nothing when that does not happen within two periods.
  std::optional<std::int64_t> exact_average_after;
  // The same from the least favourable start; nothing when some start is not exact within two periods.
  std::optional<std::int64_t> exact_average_after_any_start;
  // Rounds, from round 0, until the deviation is at most 1e-6; nothing beyond a million periods. Found by
  // bisection over whole periods, then round by round.
  std::optional<std::int64_t> rounds_to_millionth;
};

// O(period^2 * edges * n) time and O(n^2) memory: for up to some hundreds of workers.
Spectrum spectrum_of(const Schedule& schedule);

}  // namespace kith::graph
