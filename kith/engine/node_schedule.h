#pragma once

#include <memory>
#include <vector>

#include "kith/graph/schedule.h"

namespace kith::engine {

// The schedule of a world whose nodes are one model each: the topology runs over the nodes, and a node's
// workers do the same thing at the same time. A round of the topology becomes, for worker i of a node,
//   a group on one machine   the workers i of its nodes
//   a group over machines    all workers of its nodes: in three hops one model per direction travels between
//                            two machines, whatever the number of workers
//   neighbours               the workers i of the neighbours
// A neighbour with fewer workers is read at worker i mod their number: any of them has its model. Nodes of
// unequal size make a group as neighbours do, so that each node counts once.
// Workers of a node that hold the same bits before a round hold the same bits after it, on every wire.
//
// `options.shape` is the shape of the world, `machines` the machine of every rank. InputError when a node has
// workers on several machines.
std::unique_ptr<graph::Schedule> make_node_schedule(const graph::ScheduleOptions& options,
                                                    std::vector<int> machines);

// The topology that it runs over the nodes.
graph::ScheduleOptions between_nodes(graph::ScheduleOptions options);

}  // namespace kith::engine
