#include <algorithm>
#include <cmath>
#include <numeric>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/graph/topologies/static_schedule.h"
#include "kith/graph/topologies/topologies.h"

namespace kith::graph {
namespace {

using Edges = std::vector<std::pair<Rank, Rank>>;

constexpr std::uint64_t kEdgeStream = 1, kJoinStream = 2;

// Each of the n(n-1)/2 edges with probability p, by jumping from edge to edge: O(n + edges).
Edges draw(std::int64_t n, double p, std::uint64_t seed) {
  Edges edges;
  Rng rng(hash_words(seed, kEdgeStream));
  const double log_miss = std::log1p(-p);
  std::int64_t row = 1, column = -1;
  while (row < n) {
    const double jump = p >= 1 ? 0 : std::floor(std::log(1 - rng.uniform()) / log_miss);
    column += 1 + static_cast<std::int64_t>(std::min(jump, 1e18));
    for (; row < n && column >= row; ++row)
      column -= row;
    if (row < n) edges.emplace_back(row, column);
  }
  return edges;
}

// Adds one edge, between random members, for each component beyond the first.
void join_components(int n, std::uint64_t seed, Edges& edges) {
  std::vector<Rank> root(static_cast<std::size_t>(n));
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](Rank rank) {
    for (auto at = [&](Rank r) -> Rank& { return root[static_cast<std::size_t>(r)]; }; at(rank) != rank;) {
      rank = at(rank) = at(at(rank));
    }
    return rank;
  };
  for (const auto& [a, b] : edges) {
    const Rank ra = find(a), rb = find(b);
    root[static_cast<std::size_t>(std::max(ra, rb))] = std::min(ra, rb);
  }
  std::vector<std::vector<Rank>> members(static_cast<std::size_t>(n));
  for (Rank i = 0; i < n; ++i)
    members[static_cast<std::size_t>(find(i))].push_back(i);
  Rng rng(hash_words(seed, kJoinStream));
  const auto pick = [&](const std::vector<Rank>& from) { return from[rng.below(from.size())]; };
  std::vector<Rank> joined = members.front();
  for (std::size_t i = 1; i < members.size(); ++i) {
    if (members[i].empty()) continue;
    const Rank a = pick(joined), b = pick(members[i]);
    edges.emplace_back(a, b);
    joined.insert(joined.end(), members[i].begin(), members[i].end());
  }
}

}  // namespace

std::unique_ptr<Schedule> make_erdos_renyi(const ScheduleOptions& options) {
  const int n = options.shape.workers();
  double p = options.edge_probability;
  if (!(p >= 0 && p <= 1)) {
    throw InputError(cat("edge probability ", p), "erdos-renyi", "from 0 (which picks 2 ln(n) / n) to 1");
  }
  if (p == 0) p = std::min(1.0, 2 * std::log(static_cast<double>(std::max(n, 2))) / n);
  Edges edges = draw(n, p, options.seed);
  join_components(n, options.seed, edges);
  return std::make_unique<StaticSchedule>("erdos-renyi", options.shape, std::move(edges));
}

}  // namespace kith::graph
