#pragma once

#include "kith/plan/evaluate.h"

namespace kith::plan {

// What each of the three factors of arXiv 2410.11998 contributes, each alone: the iteration of all-reduce
// with only that factor changed. Seconds.
struct Why {
  Prediction all_reduce;
  Prediction mixing;
  double overlap_s = 0;   // everybody still averages with everybody, but with a whole iteration to travel in
  double topology_s = 0;  // the barrier of all-reduce, but each bucket costs what the topology's rounds cost
  double straggling_s = 0;  // all-reduce's communication, but workers wait only for whom they meet
  // What is left: the factors help, or get in the way of, each other.
  double together_s() const {
    const double base = all_reduce.time.iteration_s;
    return mixing.time.iteration_s - (overlap_s + topology_s + straggling_s - 2 * base);
  }
};

// Of a mixing candidate, against the faster plain all-reduce.
Why why(const Profile& profile, const Candidate& candidate, const SimulationOptions& simulation);

}  // namespace kith::plan
