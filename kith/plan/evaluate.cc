#include "kith/plan/evaluate.h"

#include <algorithm>

#include "kith/base/check.h"

namespace kith::plan {
namespace {

bool faster(const Prediction& a, const Prediction& b) {
  return a.time.iteration_s < b.time.iteration_s;
}

}  // namespace

Prediction predict(const Profile& profile, const Candidate& candidate, const SimulationOptions& simulation) {
  const sim::Scenario scenario = scenario_of(profile, candidate, simulation);
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
  for (Prediction& p : all)
    p.speed_up = baseline_s / p.time.iteration_s;
  std::stable_sort(all.begin(), all.end(), faster);
  return all;
}

}  // namespace kith::plan
