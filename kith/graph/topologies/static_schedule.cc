#include "kith/graph/topologies/static_schedule.h"

#include <algorithm>

namespace kith::graph {

StaticSchedule::StaticSchedule(std::string name, Shape shape, std::vector<std::pair<Rank, Rank>> edges)
    : Schedule(std::move(name), std::move(shape)) {
  const std::size_t given = edges.size();
  edges.reserve(2 * given);
  for (std::size_t i = 0; i < given; ++i)
    edges.emplace_back(edges[i].second, edges[i].first);
  std::erase_if(edges, [](const auto& edge) { return edge.first == edge.second; });
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  first_.assign(static_cast<std::size_t>(workers()) + 1, 0);
  neighbours_.reserve(edges.size());
  for (const auto& [from, to] : edges) {
    ++first_[static_cast<std::size_t>(from) + 1];
    neighbours_.push_back(to);
  }
  for (std::size_t i = 1; i < first_.size(); ++i)
    first_[i] += first_[i - 1];
}

WorkerRound StaticSchedule::round(Rank rank, std::int64_t) const {
  const auto begin = [&](Rank r) { return first_[static_cast<std::size_t>(r)]; };
  const std::vector<Rank> mine(neighbours_.begin() + static_cast<std::ptrdiff_t>(begin(rank)),
                               neighbours_.begin() + static_cast<std::ptrdiff_t>(begin(rank + 1)));
  return metropolis_round(rank, mine, [&](Rank other) { return begin(other + 1) - begin(other); });
}

WorkerRound metropolis_round(Rank rank, const std::vector<Rank>& neighbours,
                             const std::function<std::size_t(Rank)>& degree_of) {
  WorkerRound out;
  if (neighbours.empty()) {
    out.group = {rank};
    return out;
  }
  out.form = Form::neighbours;
  out.readers = neighbours;
  out.reads.reserve(neighbours.size());
  double given = 0;
  for (Rank other : neighbours) {
    const double weight = 1.0 / static_cast<double>(1 + std::max(neighbours.size(), degree_of(other)));
    out.reads.push_back({other, weight});
    given += weight;
  }
  out.self_weight = 1 - given;
  return out;
}

}  // namespace kith::graph
