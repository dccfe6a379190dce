#include "kith/engine/roster.h"

#include <algorithm>
#include <utility>

namespace kith::engine {

Roster::Roster(const Members& first, const graph::Shape& shape) {
  for (Rank rank = 0; rank < first.size(); ++rank)
    nodes_[first.at(rank)] = shape.node_of(rank);
}

void Roster::take_in(const Members& members, const std::vector<int>& machines) {
  for (Rank rank = 0; rank < members.size(); ++rank) {
    if (nodes_.contains(members.at(rank))) continue;
    std::map<int, int> sizes;  // of the nodes on its machine
    int last = -1;
    for (Rank other = 0; other < members.size(); ++other) {
      const auto known = nodes_.find(members.at(other));
      if (known == nodes_.end()) continue;
      last = std::max(last, known->second);
      if (machines[static_cast<std::size_t>(other)] == machines[static_cast<std::size_t>(rank)])
        sizes[known->second] = 0;
    }
    for (const WorkerId worker : members.workers) {
      const auto known = nodes_.find(worker);
      if (known != nodes_.end() && sizes.contains(known->second)) ++sizes[known->second];
    }
    const auto smallest =
        std::ranges::min_element(sizes, [](const auto& a, const auto& b) { return a.second < b.second; });
    nodes_[members.at(rank)] = smallest == sizes.end() ? last + 1 : smallest->first;
  }
}

Members Roster::ordered(Members members) const {
  std::ranges::sort(members.workers, {}, [&](WorkerId w) { return std::pair(nodes_.at(w), w.value); });
  return members;
}

graph::Shape Roster::shape(const Members& members) const {
  std::map<int, int> sizes;
  for (const WorkerId worker : members.workers)
    ++sizes[nodes_.at(worker)];
  std::vector<int> in_order;
  for (const auto& [node, size] : sizes)
    in_order.push_back(size);
  return graph::Shape(std::move(in_order));
}

}  // namespace kith::engine
