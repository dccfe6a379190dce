#include "kith/gossip/hops.h"

#include <algorithm>
#include <functional>

namespace kith::gossip {

void HopSizes::include(const GroupPlan& plan) {
  if (!plan.flat()) sums = std::max(sums, plan.sums_count());
  totals = std::max(totals, plan.totals_count());
  if (plan.mates().size() > 1) results = std::max(results, plan.own_shard().count);
}

HopSizes HopSizes::of(const graph::Schedule& schedule, std::span<const int> machines, std::size_t count,
                      DType wire) {
  HopSizes sizes;
  if (std::ranges::adjacent_find(machines, std::ranges::not_equal_to{}) == machines.end()) return sizes;
  for (std::int64_t t = 0; t < schedule.period(); ++t) {
    for (Rank rank = 0; rank < schedule.workers(); ++rank) {
      const graph::WorkerRound round = schedule.round(rank, t);
      if (GroupPlan::applies(round, machines))
        sizes.include(GroupPlan(round.group, machines, rank, count, wire));
    }
  }
  return sizes;
}

std::vector<int> machines_of(const comm::Transport& transport, const Members& members) {
  const std::vector<WorkerId>& workers = transport.workers();
  std::vector<int> machines;
  for (WorkerId worker : members.workers) {
    const auto found = std::lower_bound(workers.begin(), workers.end(), worker);
    machines.push_back(transport.machines()[static_cast<std::size_t>(found - workers.begin())]);
  }
  return machines;
}

void address(comm::PublishOptions& publish, const graph::WorkerRound& round, const Members& members,
             Rank self, std::span<const int> machines, std::size_t count, DType wire) {
  const auto add = [&](Rank reader, std::size_t first, std::size_t elements) {
    publish.readers.push_back(members.at(reader));
    publish.ranges.push_back({bytes_of(wire, first), bytes_of(wire, elements)});
  };
  if (!GroupPlan::applies(round, machines)) {
    for (Rank reader : graph::readers_of(round, self))
      publish.readers.push_back(members.at(reader));
    return;
  }
  const GroupPlan plan(round.group, machines, self, count, wire);
  if (plan.flat()) {
    for (const Message& message : plan.sums_out())
      add(message.peer, message.offset, message.count);
    return;
  }
  for (Rank mate : plan.mates()) {
    const Extent shard = plan.shard(mate);
    if (mate != self && shard.count > 0) add(mate, shard.first, shard.count);
  }
}

}  // namespace kith::gossip
