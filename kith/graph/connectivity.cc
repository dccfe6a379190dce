#include "kith/graph/connectivity.h"

namespace kith::graph {
namespace {

using Step = std::vector<Rank> (*)(const WorkerRound&, Rank);

std::vector<bool> reached_from_zero(const Schedule& schedule, Step step) {
  std::vector<bool> reached(static_cast<std::size_t>(schedule.workers()), false);
  std::vector<Rank> open{0};
  reached[0] = true;
  while (!open.empty()) {
    const Rank rank = open.back();
    open.pop_back();
    for (std::int64_t t = 0; t < schedule.period(); ++t) {
      for (Rank next : step(schedule.round(rank, t), rank)) {
        if (reached[static_cast<std::size_t>(next)]) continue;
        reached[static_cast<std::size_t>(next)] = true;
        open.push_back(next);
      }
    }
  }
  return reached;
}

}  // namespace

std::vector<Rank> cut_off(const Schedule& schedule) {
  const std::vector<bool> hears = reached_from_zero(schedule, readers_of);
  const std::vector<bool> heard = reached_from_zero(schedule, reads_of);
  std::vector<Rank> out;
  for (Rank rank = 0; rank < schedule.workers(); ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    if (!hears[i] || !heard[i]) out.push_back(rank);
  }
  return out;
}

}  // namespace kith::graph
