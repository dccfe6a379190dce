#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "kith/graph/schedule.h"

namespace kith::graph {

// One undirected graph for every round, with Metropolis-Hastings weights: 1 / (1 + the larger of the two
// degrees) on an edge, the rest on oneself. Keeps the adjacency, O(edges).
class StaticSchedule final : public Schedule {
 public:
  // Edges may come in any order, either way round and more than once; loops are dropped.
  StaticSchedule(std::string name, Shape shape, std::vector<std::pair<Rank, Rank>> edges);

  std::int64_t period() const override { return 1; }
  WorkerRound round(Rank rank, std::int64_t t) const override;

 private:
  std::vector<std::size_t> first_;  // of a rank's neighbours; one more at the end
  std::vector<Rank> neighbours_;
};

// Row `rank` of the Metropolis-Hastings matrix. `degree_of` gives a neighbour's degree.
WorkerRound metropolis_round(Rank rank, const std::vector<Rank>& neighbours,
                             const std::function<std::size_t(Rank)>& degree_of);

}  // namespace kith::graph
