#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kith/base/dtype.h"
#include "kith/base/ids.h"
#include "kith/comm/transport.h"
#include "kith/gossip/group_plan.h"
#include "kith/graph/schedule.h"

namespace kith::gossip {

// Elements that the hops of any round of a schedule publish, at most.
struct HopSizes {
  std::size_t sums = 0;
  std::size_t totals = 0;
  std::size_t results = 0;

  bool any() const { return sums + totals + results > 0; }
  // Over all ranks, so that every worker finds the same. `machines` holds the machine of every rank.
  static HopSizes of(const graph::Schedule& schedule, std::span<const int> machines, std::size_t count,
                     DType wire = DType::f32);
  void include(const GroupPlan& plan);
};

// The machine of every member, by rank.
std::vector<int> machines_of(const comm::Transport& transport, const Members& members);

// Names the readers of what `self` publishes for `round`, and the part each of them needs, in bytes of the
// wire.
void address(comm::PublishOptions& publish, const graph::WorkerRound& round, const Members& members,
             Rank self, std::span<const int> machines, std::size_t count, DType wire);

}  // namespace kith::gossip
