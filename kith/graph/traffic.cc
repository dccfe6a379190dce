#include "kith/graph/traffic.h"

#include <algorithm>

namespace kith::graph {
namespace {

double nodes_spanned(const Shape& shape, const std::vector<Rank>& ascending) {
  int count = 0, last = -1;
  for (Rank rank : ascending) {
    const int node = shape.node_of(rank);
    count += node != last ? 1 : 0;
    last = node;
  }
  return count;
}

// Models that leave `rank`'s node on its behalf: its share of a group's outflow, or one per reader elsewhere.
double outflow(const Shape& shape, const WorkerRound& round, Rank rank) {
  const int node = shape.node_of(rank);
  if (round.form == Form::group) {
    const double spanned = nodes_spanned(shape, round.group);
    const auto here = std::count_if(round.group.begin(), round.group.end(),
                                    [&](Rank member) { return shape.node_of(member) == node; });
    return 2 * (spanned - 1) / spanned / static_cast<double>(here);
  }
  return static_cast<double>(std::count_if(round.readers.begin(), round.readers.end(),
                                           [&](Rank reader) { return shape.node_of(reader) != node; }));
}

}  // namespace

Traffic traffic_of(const Schedule& schedule) {
  const Shape& shape = schedule.shape();
  const int n = schedule.workers();
  const auto period = static_cast<double>(schedule.period());
  Traffic out;
  std::vector<double> received(static_cast<std::size_t>(n), 0);
  for (std::int64_t t = 0; t < schedule.period(); ++t) {
    std::vector<double> leaving(static_cast<std::size_t>(shape.nodes()), 0);
    for (Rank rank = 0; rank < n; ++rank) {
      const WorkerRound round = schedule.round(rank, t);
      const bool group = round.form == Form::group;
      const auto size = static_cast<double>(group ? round.group.size() : round.reads.size());
      const double models = group ? 2 * (size - 1) / size : size;
      out.messages_per_worker += group && size > 2 ? 2 * (size - 1) : models;
      out.models_per_worker += models;
      received[static_cast<std::size_t>(rank)] += models;
      leaving[static_cast<std::size_t>(shape.node_of(rank))] += outflow(shape, round, rank);
    }
    for (double models : leaving) {
      out.cross_node_models += models / period;
      out.busiest_node_models = std::max(out.busiest_node_models, models);
    }
  }
  out.messages_per_worker /= n * period;
  out.models_per_worker /= n * period;
  out.busiest_worker_models = *std::max_element(received.begin(), received.end()) / period;
  return out;
}

}  // namespace kith::graph
