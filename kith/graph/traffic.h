#pragma once

#include "kith/graph/schedule.h"

namespace kith::graph {

// What a schedule moves, averaged over a period. Bytes are in units of one model's bytes ("models").
//   a pair, a neighbour    one message of one model per directed read
//   a group of g > 2       reduce-scatter and all-gather: 2(g-1) messages, 2(g-1)/g models per member
//   a group over N nodes   sums inside each node, then reduce-scatter and all-gather of the sums between
//                          the nodes: 2(N-1)/N models leave each node
struct Traffic {
  double messages_per_worker = 0;    // received per round, mean over workers
  double models_per_worker = 0;      // received per round, mean over workers
  double busiest_worker_models = 0;  // received per round, averaged over the period, by whoever receives most
  double cross_node_models = 0;      // per round, leaving a node for another, summed over all nodes
  double busiest_node_models = 0;    // the largest such outflow of one node in one round
};

Traffic traffic_of(const Schedule& schedule);

}  // namespace kith::graph
