#include "kith/plan/why.h"

#include "kith/base/check.h"

namespace kith::plan {
namespace {

Profile with_free_links(const Profile& profile) {
  constexpr double kFree = 1e18;
  Profile changed = profile;
  changed.network = {{0, kFree}, {0, kFree}, kFree};
  return changed;
}

Profile without_spread(const Profile& profile) {
  Profile changed = profile;
  changed.job = profile.job.without_spread();
  return changed;
}

double seconds_of(const sim::Scenario& scenario) {
  return sim::simulate(scenario).iteration_s;
}

}  // namespace

Why why(const Profile& profile, const Candidate& candidate, const SimulationOptions& simulation) {
  KITH_CHECK(!candidate.all_reduce(), "the factors are those of a topology");
  Why result;
  result.all_reduce = best_all_reduce(profile, simulation);
  result.mixing = predict(profile, candidate, simulation);
  const double base = result.all_reduce.time.iteration_s;
  const Candidate& reduce = result.all_reduce.candidate;
  Candidate everybody = reduce;
  everybody.topology = "complete";

  const Profile steady = without_spread(profile);
  result.overlap_s = base - seconds_of(scenario_of(steady, reduce, simulation)) +
                     seconds_of(scenario_of(steady, everybody, simulation));

  sim::Scenario cheaper = scenario_of(profile, reduce, simulation);
  for (const sim::Bucket& bucket : cheaper.job.buckets)
    cheaper.all_reduce_seconds.push_back(result.mixing.time.channel_s * bucket.bytes / cheaper.job.bytes());
  result.topology_s = seconds_of(cheaper);

  const Profile free = with_free_links(profile);
  result.straggling_s = base - seconds_of(scenario_of(free, reduce, simulation)) +
                        seconds_of(scenario_of(free, candidate, simulation));
  result.mixing.speed_up = base / result.mixing.time.iteration_s;
  return result;
}

}  // namespace kith::plan
