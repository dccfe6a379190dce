#include "kith/plan/quality.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "kith/base/rng.h"

namespace kith::plan {
namespace {

using Vector = std::vector<double>;

double distance(const Vector& x, const Vector& weight, double mean) {
  double square = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    square += std::pow(x[i] / weight[i] - mean, 2);
  return std::sqrt(square / static_cast<double>(x.size()));
}

void apply(const graph::Schedule& schedule, std::int64_t t, Vector& x, Vector& weight) {
  Vector next_x(x.size(), 0.0);
  Vector next_weight(x.size(), 0.0);
  std::vector<bool> done(x.size(), false);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (done[i]) continue;
    const graph::WorkerRound round = schedule.round(static_cast<Rank>(i), t);
    for (const graph::Term& term : graph::row_of(round, static_cast<Rank>(i))) {
      next_x[i] += term.weight * x[static_cast<std::size_t>(term.rank)];
      next_weight[i] += term.weight * weight[static_cast<std::size_t>(term.rank)];
    }
    if (round.form != graph::Form::group) continue;
    for (const Rank member : round.group) {  // one mean serves the whole group
      done[static_cast<std::size_t>(member)] = true;
      next_x[static_cast<std::size_t>(member)] = next_x[i];
      next_weight[static_cast<std::size_t>(member)] = next_weight[i];
    }
  }
  x.swap(next_x);
  weight.swap(next_weight);
}

}  // namespace

Quality quality_of(const graph::Schedule& schedule, int every, std::uint64_t seed) {
  constexpr double kGoal = 1e-6;
  constexpr int kMostRounds = 1000;
  if (schedule.workers() == 1) return {0, every};
  Rng rng(hash_words(seed, 0x7175616cULL));
  Vector x(static_cast<std::size_t>(schedule.workers()));
  for (double& value : x)
    value = rng.normal();
  Vector weight(x.size(), 1.0);
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  const double first = distance(x, weight, mean);
  double last = first;
  int rounds = 0;
  while (rounds < kMostRounds && last > kGoal * first) {
    apply(schedule, rounds, x, weight);
    last = distance(x, weight, mean);
    ++rounds;
  }
  // An exact average counts as a millionth: how many rounds it took is what matters.
  const double shrunk = std::max(last / first, kGoal);
  return {std::pow(shrunk, 1.0 / (static_cast<double>(rounds) * every)), every};
}

Quality quality_of(const sim::Scenario& scenario) {
  if (!scenario.schedule) return {};
  return quality_of(*scenario.schedule, scenario.every, scenario.seed);
}

}  // namespace kith::plan
