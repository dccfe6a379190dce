#pragma once

#include <span>
#include <string_view>

#include "kith/base/ids.h"
#include "kith/graph/shape.h"

namespace kith::sim {

struct Link {
  double latency_s = 0;
  double bytes_per_s = 0;  // in each direction at once
};

// The links of a cluster. Inside a node every worker has its own; between nodes, the workers of a node share
// one NIC in each direction, and one flow may get less than the NIC has.
struct Network {
  Link inside;
  Link between;                // one flow between two nodes
  double nic_bytes_per_s = 0;  // all flows of a node together, in each direction
};

// How a group averages.
//   ring       reduce-scatter and all-gather around one ring through all members, one flow in and out of each
//   node tree       as NCCL's tree: sums inside each node and between the nodes at once (pipelined), one flow
//   for each node three_hop  kith's: sum inside each node, then each worker exchanges its shard between the
//   nodes, then spread inside
// A pair is always one exchange.
enum class Collective { ring, tree, three_hop };

std::string_view name_of(Collective collective);

// What a group looks like to the network.
struct GroupShape {
  int members = 1;
  int nodes = 1;
  int least = 1;  // members on the node with the fewest, and with the most
  int most = 1;
  auto operator<=>(const GroupShape&) const = default;
};

// REQUIRES: members ascending.
GroupShape group_shape(std::span<const Rank> members, const graph::Shape& placement);

// One operation on one bucket: how long it takes alone, and how long it holds the NIC of each node that it
// spans.
struct Cost {
  double seconds = 0;
  double nic_seconds = 0;
  double nic_bytes = 0;  // through each spanned node's NIC, in each direction
};

// Averaging `bytes` in a group; nothing for a group of one.
Cost group_cost(const Network& network, Collective collective, const GroupShape& group, double bytes);

// Reading `bytes` from one peer; "inside" when both share a node.
Cost read_cost(const Network& network, bool inside, double bytes);

}  // namespace kith::sim
