#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kith/comm/transport.h"
#include "kith/gossip/gather.h"

namespace kith::gossip {

// Averages a group over shards: each member sums one shard of everybody's published models (reduce-scatter)
// and publishes the sum; everybody then reads all sums (all-gather). Three reads and a write of the model per
// worker, whatever the group's size, where reading all members costs as many reads as the group has members.
//
// Sums run in rank order and are scaled once by 1/|group|: the bits are those of the direct path. On a
// narrower wire the shards are published as rounded means, and everybody takes them as they travelled.
template <class T>
class GroupReducer {
 public:
  struct Options {
    std::string name;       // of the window the models are published in; the shards use NAME/shard
    std::size_t count = 0;  // elements, at most
    std::vector<WorkerId> peers;
    Deadline open_deadline;
    DType wire = dtype_of<T>();  // of the shards
  };

  GroupReducer(comm::Transport& transport, kernels::Kernels<T>& kernels, const Options& options);

  // True when the shards are worth a second hop for this group. The same on all members.
  static bool pays(const graph::WorkerRound& round, std::size_t count);

  std::size_t window_bytes() const { return 2 * shards_->options().bytes; }

  // Writes the mean of `count` elements to `to`. `gathered` holds the members' models of this round. A shard
  // whose owner is late or lost is summed directly; a member that its owner missed counts as oneself, as in
  // `gather`.
  RoundReport reduce(const Gathered& gathered, const graph::WorkerRound& round, const Own& own,
                     const kernels::Destination<T>& to, std::size_t count, const GatherOptions& options);

 private:
  kernels::Kernels<T>& kernels_;
  const DType wire_;
  const std::unique_ptr<comm::Window> shards_;
};

}  // namespace kith::gossip
