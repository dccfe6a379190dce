#include "kith/engine/node_schedule.h"

#include <algorithm>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::engine {
namespace {

class NodeSchedule final : public graph::Schedule {
 public:
  NodeSchedule(const graph::Shape& shape, std::unique_ptr<graph::Schedule> nodes, std::vector<int> machines)
      : Schedule(nodes->name(), shape), nodes_(std::move(nodes)), machines_(std::move(machines)) {}

  std::int64_t period() const override { return nodes_->period(); }
  bool directed() const override { return nodes_->directed(); }

  graph::WorkerRound round(Rank rank, std::int64_t t) const override {
    const int node = shape().node_of(rank);
    const int place = rank - shape().first_of(node);
    graph::WorkerRound round = nodes_->round(node, t);
    if (round.form == graph::Form::group) {
      if (equal(round.group)) {
        round.group = workers_of(round.group, place);
        return round;
      }
      round = as_neighbours(round, node);
    }
    for (graph::Term& term : round.reads)
      term.rank = shape().first_of(term.rank) + place % shape().size_of(term.rank);
    take_readers(round, node, place);
    return round;
  }

 private:
  bool equal(const std::vector<Rank>& nodes) const {
    return std::all_of(nodes.begin(), nodes.end(),
                       [&](Rank node) { return shape().size_of(node) == shape().size_of(nodes.front()); });
  }

  // Between nodes.
  graph::WorkerRound as_neighbours(const graph::WorkerRound& group, int node) const {
    graph::WorkerRound round;
    round.form = graph::Form::neighbours;
    round.self_weight = 1.0 / static_cast<double>(group.group.size());
    round.readers = graph::readers_of(group, node);
    for (const Rank other : round.readers)
      round.reads.push_back({other, round.self_weight});
    if (directed()) round.shares.assign(round.readers.size(), round.self_weight);
    return round;
  }

  // From nodes to those of their workers that read this one.
  void take_readers(graph::WorkerRound& round, int node, int place) const {
    const std::vector<Rank> nodes = std::exchange(round.readers, {});
    const std::vector<double> shares = std::exchange(round.shares, {});
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      for (int other = place; other < shape().size_of(nodes[k]); other += shape().size_of(node)) {
        round.readers.push_back(shape().first_of(nodes[k]) + other);
        if (!shares.empty()) round.shares.push_back(shares[k]);
      }
    }
  }

  std::vector<Rank> workers_of(const std::vector<Rank>& nodes, int place) const {
    std::vector<Rank> alike, all;
    for (const Rank node : nodes) {
      alike.push_back(shape().first_of(node) + place);
      for (Rank rank = shape().first_of(node); rank < shape().first_of(node) + shape().size_of(node); ++rank)
        all.push_back(rank);
    }
    const auto machine = [&](Rank rank) { return machines_[static_cast<std::size_t>(rank)]; };
    const bool together =
        std::all_of(all.begin(), all.end(), [&](Rank rank) { return machine(rank) == machine(all.front()); });
    return together || nodes.size() == 1 ? alike : all;
  }

  const std::unique_ptr<graph::Schedule> nodes_;
  const std::vector<int> machines_;
};

}  // namespace

std::unique_ptr<graph::Schedule> make_node_schedule(const graph::ScheduleOptions& options,
                                                    std::vector<int> machines) {
  const graph::Shape& shape = options.shape;
  for (Rank rank = 0; rank < shape.workers(); ++rank) {
    const Rank first = shape.first_of(shape.node_of(rank));
    if (machines[static_cast<std::size_t>(rank)] == machines[static_cast<std::size_t>(first)]) continue;
    throw InputError(cat("gradients averaged inside nodes of ", shape.text(), " workers, of which ranks ",
                         first, " and ", rank, " share a node and no machine"),
                     "inside", "give nodes that lie on one machine each");
  }
  return std::make_unique<NodeSchedule>(shape, graph::make_schedule(between_nodes(options)),
                                        std::move(machines));
}

graph::ScheduleOptions between_nodes(graph::ScheduleOptions options) {
  options.shape = graph::Shape(std::vector<int>(static_cast<std::size_t>(options.shape.nodes()), 1));
  return options;
}

}  // namespace kith::engine
