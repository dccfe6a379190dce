#include "kith/plan/evaluate.h"

#include <algorithm>

#include "kith/base/check.h"

namespace kith::plan {
namespace {

bool faster(const Prediction& a, const Prediction& b) {
  return a.time.iteration_s < b.time.iteration_s;
}

// Exchanges between inner steps are not hidden behind anything.
sim::Result outer_time(const Profile& profile, const Candidate& candidate,
                       const SimulationOptions& simulation) {
  constexpr double kFree = 1e18;
  Profile free = profile;
  free.network = {{0, kFree}, {0, kFree}, kFree};
  sim::Result time = sim::simulate(scenario_of(free, candidate, simulation));
  const sim::Result exchange = sim::simulate(scenario_of(profile, candidate, simulation));
  const double vectors = candidate.outer == kNoloco ? 2 : 1;
  time.iteration_s += exchange.channel_s;
  time.low_s += exchange.channel_s;
  time.high_s += exchange.channel_s;
  time.channel_s = vectors * exchange.channel_s;
  time.nic_bytes = vectors * exchange.nic_bytes;
  time.waited_s += exchange.channel_s;
  time.hidden = (vectors - 1) / vectors;
  return time;
}

}  // namespace

Prediction predict(const Profile& profile, const Candidate& candidate, const SimulationOptions& simulation) {
  const sim::Scenario scenario = scenario_of(profile, candidate, simulation);
  if (!candidate.steps_are_known()) {
    const sim::Result time =
        candidate.outer.empty() ? sim::simulate(scenario) : outer_time(profile, candidate, simulation);
    return {candidate, time, quality_of(scenario), 1, {.measured = false, .known = false}};
  }
  const StepsFactor steps =
      candidate.all_reduce() ? StepsFactor() : steps_factor(candidate.topology, profile.nodes.workers());
  return {candidate, sim::simulate(scenario), quality_of(scenario), 1, steps};
}

Prediction best_all_reduce(const Profile& profile, const SimulationOptions& simulation) {
  const Prediction ring = predict(profile, {kAllReduce, sim::Collective::ring}, simulation);
  const Prediction hierarchical = predict(profile, {kAllReduce, sim::Collective::three_hop}, simulation);
  return faster(hierarchical, ring) ? hierarchical : ring;
}

Prediction best_mixing(const Profile& profile, const SimulationOptions& simulation) {
  Prediction best = predict(profile, {"aer"}, simulation);
  for (const char* topology : {"exp", "base"}) {
    Prediction other = predict(profile, {topology}, simulation);
    if (faster(other, best)) best = std::move(other);
  }
  return best;
}

std::vector<Prediction> evaluate(const Profile& profile, const SimulationOptions& simulation) {
  std::vector<Prediction> all;
  for (const Candidate& candidate : plain_candidates())
    all.push_back(predict(profile, candidate, simulation));
  std::stable_sort(all.begin(), all.end(), faster);

  std::vector<Candidate> promising;
  int mixing = 0;
  bool reducing = false;
  double baseline_s = 0;
  for (const Prediction& p : all) {
    if (p.candidate.all_reduce() && !reducing) {
      reducing = true;
      baseline_s = p.time.iteration_s;
      promising.push_back(p.candidate);
    } else if (!p.candidate.all_reduce() && mixing < 3) {
      ++mixing;
      promising.push_back(p.candidate);
    }
  }
  KITH_CHECK(reducing, "all-reduce is always a candidate");
  for (const Candidate& candidate : promising) {
    for (const Candidate& variation : variations(candidate))
      all.push_back(predict(profile, variation, simulation));
  }
  for (const Candidate& outer : outer_loops())
    all.push_back(predict(profile, outer, simulation));
  for (Prediction& p : all)
    p.speed_up = baseline_s / p.time.iteration_s;
  std::stable_sort(all.begin(), all.end(), faster);
  return all;
}

}  // namespace kith::plan
