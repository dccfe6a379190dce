#include "kith/sim/network.h"

#include <algorithm>
#include <bit>

namespace kith::sim {

std::string_view name_of(Collective collective) {
  switch (collective) {
    case Collective::ring:
      return "ring";
    case Collective::tree:
      return "tree";
    case Collective::three_hop:
      return "three-hop";
  }
  return "?";
}

GroupShape group_shape(std::span<const Rank> members, const graph::Shape& placement) {
  GroupShape shape{static_cast<int>(members.size()), 0, static_cast<int>(members.size()), 0};
  for (std::size_t first = 0; first < members.size();) {
    const int node = placement.node_of(members[first]);
    const Rank end = placement.first_of(node) + placement.size_of(node);
    std::size_t next = first;
    while (next < members.size() && members[next] < end)
      ++next;
    ++shape.nodes;
    shape.least = std::min(shape.least, static_cast<int>(next - first));
    shape.most = std::max(shape.most, static_cast<int>(next - first));
    first = next;
  }
  return shape;
}

Cost read_cost(const Network& network, bool inside, double bytes) {
  if (inside) return {network.inside.latency_s + bytes / network.inside.bytes_per_s, 0, 0};
  const double rate = std::min(network.between.bytes_per_s, network.nic_bytes_per_s);
  return {network.between.latency_s + bytes / rate, bytes / network.nic_bytes_per_s, bytes};
}

Cost group_cost(const Network& network, Collective collective, const GroupShape& group, double bytes) {
  if (group.members == 1) return {};
  if (group.members == 2) return read_cost(network, group.nodes == 1, bytes);
  const Link& inside = network.inside;
  const auto around = [](int n) { return 2.0 * (n - 1) / n; };
  if (group.nodes == 1) {
    return {2 * (group.members - 1) * inside.latency_s + around(group.members) * bytes / inside.bytes_per_s,
            0, 0};
  }
  const double flow = std::min(network.between.bytes_per_s, network.nic_bytes_per_s);
  if (collective == Collective::ring) {
    const double moved = around(group.members) * bytes;
    const double rate = group.most > 1 ? std::min(flow, inside.bytes_per_s) : flow;
    return {2 * (group.members - 1) * network.between.latency_s + moved / rate,
            moved / network.nic_bytes_per_s, moved};
  }
  const double crossing = around(group.nodes) * bytes;
  const double within = group.most > 1 ? around(group.most) * bytes / inside.bytes_per_s : 0;
  if (collective == Collective::tree) {
    const int depth = std::bit_width(static_cast<unsigned>(group.nodes - 1));
    const double latency = 2 * depth * network.between.latency_s + 2 * (group.most - 1) * inside.latency_s;
    return {latency + std::max(within, crossing / flow), crossing / network.nic_bytes_per_s, crossing};
  }
  const double rate = std::min(group.least * network.between.bytes_per_s, network.nic_bytes_per_s);
  const double latency =
      2 * (group.nodes - 1) * network.between.latency_s + 2 * (group.most - 1) * inside.latency_s;
  return {latency + within + crossing / rate, crossing / network.nic_bytes_per_s, crossing};
}

}  // namespace kith::sim
