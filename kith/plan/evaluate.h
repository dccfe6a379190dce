#pragma once

#include <vector>

#include "kith/plan/candidate.h"
#include "kith/plan/quality.h"
#include "kith/plan/steps_factor.h"
#include "kith/sim/simulate.h"

namespace kith::plan {

// A candidate and what is predicted for it.
struct Prediction {
  Candidate candidate;
  sim::Result time;
  Quality quality;
  double speed_up = 1;  // over the faster plain all-reduce
  StepsFactor steps;    // 1 for all-reduce

  // Of as many steps as give the loss of one of all-reduce.
  double to_loss_s() const { return time.iteration_s * steps.factor; }
};

// Simulates every plain candidate, then the variations of the fastest all-reduce and of the three fastest
// topologies, and the outer loops; fastest first. Topologies that cannot be built for these nodes are left
// out.
std::vector<Prediction> evaluate(const Profile& profile, const SimulationOptions& simulation);

// The faster of the two plain all-reduces.
Prediction best_all_reduce(const Profile& profile, const SimulationOptions& simulation);
// The fastest plain candidate of a few that hold their own at every size: aer, exp, base.
Prediction best_mixing(const Profile& profile, const SimulationOptions& simulation);

// Of an outer loop: inner steps alone, with the waits of the outer ones, and what is urgent in an outer step
// spread over its inner steps. noloco's slow models travel during the inner steps.
Prediction predict(const Profile& profile, const Candidate& candidate, const SimulationOptions& simulation);

}  // namespace kith::plan
