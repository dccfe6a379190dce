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
    for (graph::Term& term : round.reads)
      term.rank = shape().first_of(term.rank) + place;
    for (Rank& reader : round.readers)
      reader = shape().first_of(reader) + place;
    if (round.form == graph::Form::group) round.group = workers_of(round.group, place);
    return round;
  }

 private:
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
