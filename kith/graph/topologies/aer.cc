#include <algorithm>
#include <numeric>

#include "kith/graph/base_graph.h"
#include "kith/graph/topologies/topologies.h"

namespace kith::graph {
namespace {

// The alternating exponential ring (arXiv 2410.11998). Rounds of the base-2 graph over *nodes*; each owns two
// steps. A pair of nodes averages jointly in one of them and each node by itself in the other; which comes
// first alternates from pair to pair, so that about half the nodes use the slow links at a time.
//
// For 2^R equal nodes this is the published schedule. For other numbers of equal nodes the weighted exchanges
// of the base graph join worker i of one node to worker i of the other, and the average is exact. Nodes of
// unequal size always meet in joint groups, which weigh every worker the same: the mean is kept and the
// rounds contract. A shape of one node is taken as one node per worker.
class Aer final : public Schedule {
 public:
  explicit Aer(const Shape& given)
      : Schedule("aer", given), graph_(given.nodes() == 1 ? given.workers() : given.nodes(), 1) {
    for (int node = 1; node < given.nodes(); ++node) {
      equal_nodes_ = equal_nodes_ && given.size_of(node) == given.size_of(0);
    }
  }

  std::int64_t period() const override { return std::max(1, 2 * graph_.rounds()); }

  WorkerRound round(Rank rank, std::int64_t t) const override {
    const int step = static_cast<int>(t % period());
    const int node = node_of(rank);
    const BasePart part = graph_.rounds() == 0 ? BasePart{{node}, {}, 0} : graph_.at(node, step / 2);
    const int other = peer_of(node, part);
    if (other == node || !crosses(node, other, step % 2)) return {.group = ranks_of(node)};
    if (!part.partners.empty() && equal_nodes_) {
      const Rank peer = rank - first_of(node) + first_of(other);
      return {.form = Form::neighbours,
              .group = {},
              .self_weight = 1 - part.partner_weight,
              .reads = {{peer, part.partner_weight}},
              .readers = {peer}};
    }
    WorkerRound joint{.group = ranks_of(std::min(node, other))};
    const std::vector<Rank> upper = ranks_of(std::max(node, other));
    joint.group.insert(joint.group.end(), upper.begin(), upper.end());
    return joint;
  }

 private:
  static int peer_of(int node, const BasePart& part) {
    if (!part.partners.empty()) return part.partners.front();
    return part.group.front() == node ? part.group.back() : part.group.front();
  }

  // The parity of a pair in the published order (all pairs of a round by their lower node) is the lowest bit
  // of that node once the bit in which the two differ is taken out.
  static bool crosses(int node, int other, int half) {
    const int lower = std::min(node, other);
    const int parity = (std::max(node, other) - lower == 1 ? lower >> 1 : lower) & 1;
    return half != parity;
  }

  bool flat() const { return shape().nodes() == 1; }
  int node_of(Rank rank) const { return flat() ? rank : shape().node_of(rank); }
  Rank first_of(int node) const { return flat() ? node : shape().first_of(node); }
  int size_of(int node) const { return flat() ? 1 : shape().size_of(node); }
  std::vector<Rank> ranks_of(int node) const {
    std::vector<Rank> ranks(static_cast<std::size_t>(size_of(node)));
    std::iota(ranks.begin(), ranks.end(), first_of(node));
    return ranks;
  }

  const BaseGraph graph_;
  bool equal_nodes_ = true;
};

}  // namespace

std::unique_ptr<Schedule> make_aer(const ScheduleOptions& options) {
  return std::make_unique<Aer>(options.shape);
}

}  // namespace kith::graph
