#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kith/base/dtype.h"
#include "kith/base/ids.h"
#include "kith/graph/schedule.h"

namespace kith::gossip {

// A stretch of a vector, in elements.
struct Extent {
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t end() const { return first + count; }
};

// Part `index` of an extent cut into `parts` about equal ones. Parts begin at multiples of 16 elements from
// the extent's start, so that they stay aligned, and are whole blocks of the wire; the last ones may be
// empty.
Extent part_of(const Extent& whole, std::size_t parts, std::size_t index, DType wire = DType::f32);

// A stretch that one worker of each machine carries: the same workers for every element of it.
struct Piece {
  Extent extent;
  std::vector<Rank> carriers;  // by machine
};

// A message between two carriers: `extents` of the vector, ascending, packed one after the other from
// `offset` on in what the sender publishes.
struct Message {
  Rank peer = 0;
  std::size_t offset = 0;
  std::size_t count = 0;
  std::vector<Extent> extents;
};

// Who does what when a group that spans machines averages in three hops. A pure function of its arguments,
// the same on all members.
//
//   inside   every worker carries a shard of the vector: it sums that shard over the members of its machine
//   across   carriers of the same elements, one per machine, exchange these sums. Two machines send each
//   other
//            the whole; more of them reduce-scatter and all-gather: each carrier owns a part of each piece,
//            gets that part's sums, and sends the total back
//   inside   everybody reads the results of its machine's carriers
//
// Every machine thus sends 2 (N - 1) / N vectors, whatever the number of its workers: one for two machines.
class GroupPlan {
 public:
  // `machines` holds the machine of every rank.
  GroupPlan(std::span<const Rank> group, std::span<const int> machines, Rank self, std::size_t count,
            DType wire = DType::f32);

  // True when the round's group has members on several machines and a plain read of all of them would send
  // more than needed (two single workers read each other).
  static bool applies(const graph::WorkerRound& round, std::span<const int> machines);

  // The members by machine, oneself included; machines in the order of their first member.
  const std::vector<std::vector<Rank>>& machines() const { return machines_; }
  std::size_t home() const { return home_; }
  const std::vector<Rank>& mates() const { return machines_[home_]; }
  std::size_t size() const { return size_; }
  // True when no machine has more than one member: there is no inside.
  bool flat() const { return size_ == machines_.size(); }
  // True when the carriers send each other whole sums, without a second step across.
  bool direct() const { return machines_.size() == 2; }

  // The shard of a member of this machine.
  Extent shard(Rank mate) const;
  const Extent& own_shard() const { return shard_; }

  // What this worker gets the sums of all machines of, ascending.
  const std::vector<Piece>& owned() const { return owned_; }

  // Sums: this worker's to other carriers, and theirs to it, in the order of the machines and within one
  // ascending. Sums lie packed in this order; a flat plan sends them from the vector itself.
  const std::vector<Message>& sums_out() const { return sums_out_; }
  const std::vector<Message>& sums_in() const { return sums_in_; }
  // Totals, where the exchange is not direct: the owned extents packed.
  const std::vector<Message>& totals_out() const { return totals_out_; }
  const std::vector<Message>& totals_in() const { return totals_in_; }

  // Elements of the packed sums and totals.
  std::size_t sums_count() const { return sums_count_; }
  std::size_t totals_count() const { return totals_count_; }

 private:
  Extent owned_part(const Piece& piece, std::size_t machine) const;
  void add(std::vector<Message>& messages, Rank peer, std::size_t offset, const Extent& extent) const;
  void plan_sums();
  void plan_totals();

  const Extent whole_;
  const DType wire_;
  std::vector<std::vector<Rank>> machines_;
  std::size_t size_ = 0;
  std::size_t home_ = 0;
  Extent shard_;
  std::vector<Piece> pieces_;  // of the own shard, ascending
  std::vector<Piece> owned_;
  std::vector<Message> sums_out_, sums_in_, totals_out_, totals_in_;
  std::size_t sums_count_ = 0;
  std::size_t totals_count_ = 0;
};

}  // namespace kith::gossip
