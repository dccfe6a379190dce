#include "kith/plan/outlook.h"

#include "kith/base/text.h"
#include "kith/plan/recommend.h"
#include "kith/plan/units.h"

namespace kith::plan {
namespace {

bool mixing_wins(const Profile& profile, const SimulationOptions& simulation) {
  return best_mixing(profile, simulation).to_loss_s() * kWorthChanging <=
         best_all_reduce(profile, simulation).to_loss_s();
}

const char* answer(bool mixing) {
  return mixing ? "mixing" : "all-reduce";
}

struct Step {
  Profile profile;
  std::string text;
};

// The first step, nearest first, at which the answer turns.
std::string turning_point(const std::string& what, const std::vector<Step>& steps, bool now,
                          const SimulationOptions& simulation) {
  for (const Step& step : steps) {
    if (mixing_wins(step.profile, simulation) != now)
      return cat(what, ": ", answer(!now), " from ", step.text);
  }
  return cat(what, ": ", answer(now), " still, as far as ", steps.back().text);
}

std::vector<Step> bandwidths(const Profile& profile, bool up) {
  std::vector<Step> steps;
  for (const double factor : {1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0}) {
    const double rate = profile.network.nic_bytes_per_s * (up ? factor : 1 / factor);
    steps.push_back({with_link(profile, rate), cat(human_rate(rate), " between nodes")});
  }
  return steps;
}

std::vector<Step> worker_counts(const Profile& profile, bool up) {
  constexpr int kMostWorkers = 1024;
  std::vector<Step> steps;
  for (int nodes = up ? profile.nodes.nodes() * 2 : profile.nodes.nodes() / 2; nodes >= 1;
       nodes = up ? nodes * 2 : nodes / 2) {
    const graph::Shape shape(std::vector<int>(static_cast<std::size_t>(nodes), profile.nodes.size_of(0)));
    if (shape.workers() > kMostWorkers) break;
    steps.push_back({with_nodes(profile, shape),
                     cat(shape.workers(), " workers on ", nodes, nodes == 1 ? " node" : " nodes")});
  }
  return steps;
}

std::vector<Step> spreads(const Profile& profile, bool up) {
  std::vector<Step> steps;
  const double now = profile.job.batch.cv();
  if (!up) return {{with_batch_spread(profile, 0), "batches that all take the same time"}};
  for (const double cv : {0.05, 0.1, 0.2, 0.4, 0.8}) {
    if (cv > now)
      steps.push_back({with_batch_spread(profile, cv), cat("batches that vary by ", 100 * cv, "%")});
  }
  return steps;
}

}  // namespace

std::vector<std::string> what_would_change(const Profile& profile, const SimulationOptions& simulation) {
  const bool now = mixing_wins(profile, simulation);
  std::vector<std::string> sentences;
  const auto add = [&](const std::string& what, const std::vector<Step>& steps) {
    if (!steps.empty()) sentences.push_back(turning_point(what, steps, now, simulation));
  };
  // Mixing gains by slow links, many workers and spread; look where the other answer may lie.
  if (profile.nodes.nodes() > 1) add("bandwidth", bandwidths(profile, now));
  if (profile.job.slowness.empty() && profile.between_known) add("workers", worker_counts(profile, !now));
  add("spread", spreads(profile, !now));
  return sentences;
}

}  // namespace kith::plan
