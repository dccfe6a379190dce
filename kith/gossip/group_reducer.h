#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kith/comm/transport.h"
#include "kith/gossip/gather.h"

namespace kith::gossip {

// Averages a group over shards: each member sums one shard of everybody's published models (reduce-scatter)
// and publishes the sum; everybody then reads all sums (all-gather). Two reads of the model per worker and a
// write of a shard, whatever the group's size, where reading all members costs as many reads as the group has
// members.
//
// Sums run in rank order and are scaled once by 1/|group|: the bits are those of the direct path. On a
// narrower wire the shards are published as rounded means, and everybody takes them as they travelled.
template <class T>
class GroupReducer {
 public:
  // The least group that is cut into shards: pairs and triples read each other directly.
  static constexpr std::size_t kLeast = 4;
  // The same where the mix is part of a fused pass, which reads the members at no other cost: shards then add
  // passes of their own.
  static constexpr std::size_t kLeastFused = 8;

  struct Options {
    std::string name;       // of the window the models are published in; the shards use NAME/shard
    std::size_t count = 0;  // elements, at most
    std::vector<WorkerId> peers;
    Deadline open_deadline;
    DType wire = dtype_of<T>();  // of the shards
  };

  GroupReducer(comm::Transport& transport, const Options& options);

  // True when the shards are worth a second hop for this group. The same on all members.
  static bool pays(const graph::WorkerRound& round, std::size_t count, std::size_t least = kLeast);
  // For some group of the schedule. The same on all workers.
  static bool pays(const graph::Schedule& schedule, std::size_t count, std::size_t least = kLeast);

  std::size_t window_bytes() const { return 2 * shards_->options().bytes; }

  // `gathered` holds the members' models of this round, `count` elements each; its mix reads the sums from
  // now on. A shard whose owner is late or lost is summed directly; a member that its owner missed counts as
  // oneself, as in `gather`.
  void sum(Gathered& gathered, const graph::WorkerRound& round, const Own& own, std::size_t count,
           const GatherOptions& options);

 private:
  const std::unique_ptr<kernels::Kernels<T>> kernels_;
  const DType wire_;
  const std::unique_ptr<comm::Window> shards_;
};

}  // namespace kith::gossip
