#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kith/comm/transport.h"
#include "kith/gossip/gather.h"
#include "kith/gossip/hops.h"

namespace kith::gossip {

// What becomes of a rounding on the way, on a lossy wire.
//   kept    it stays with the machine that rounded: the members' mean is kept exactly (models)
//   shared  everybody takes what travelled: all members end with the same bits (gradients)
enum class Rounding : std::uint8_t { kept, shared };

// Averages groups that span machines (GroupPlan says how). The mean is of what the members published.
//
// Sums run over a machine's members in rank order, then over the machines; all members of a group on a plain
// wire end with the same bits. Where roundings are shared, sums and totals travel divided by the group's
// size, so that 16 bits hold their range, and results inside a machine are rounded too. A member that is late
// or lost counts as the mean of those of its machine that came, a missing machine as the mean of the others;
// the report names them. Push-sum weights travel with the vectors and are averaged likewise.
//
// The hops are three stages, so that several vectors can be under way: each stage of one Round is called
// once, in order; stages of different rounds of different reducers may run on different threads.
template <class T>
class MachineReducer {
 public:
  struct Options {
    std::string name;         // of the window the vectors are published in; the hops use NAME/sum and so on
    std::size_t count = 0;    // elements, at most
    DType wire = DType::f32;  // int8 where roundings are kept only
    HopSizes sizes;
    std::vector<int> machines;  // by rank
    std::vector<WorkerId> peers;
    Deadline open_deadline;
    Rounding rounding = Rounding::kept;
  };

  struct Round {
    comm::Window& vectors;  // where the members published
    Own own;
    GatherOptions options;
    std::size_t count;  // elements
    std::span<T> to;    // where a member that is alone on its machine writes the mean
    GroupPlan plan;
    std::map<std::size_t, std::size_t> sent;  // first element of a sum that goes out -> its place in the slot
    double weight_inside = 0;                 // push-sum weights of the machine's members, summed
    std::vector<MeanPart>
        mean;  // after the last stage; one's own parts lie in a slot until the round after the next
    RoundReport report;
  };

  MachineReducer(comm::Transport& transport, const Options& options);
  ~MachineReducer();

  std::size_t memory_bytes() const;

  // REQUIRES: GroupPlan::applies; the vector of `count` elements was published to those that address() names.
  std::unique_ptr<Round> begin(comm::Window& vectors, const graph::WorkerRound& round, const Own& own,
                               const GatherOptions& options, std::size_t count);
  void sum_inside(Round& round);
  void exchange(Round& round);
  void collect(Round& round);

  // All stages at once.
  void run(Round& round);
  // Gathers the parts of the mean.
  void copy_mean(const Round& round, std::span<T> to);
  // Everything, with the mean in one piece.
  RoundReport reduce(comm::Window& vectors, const graph::WorkerRound& round, const Own& own,
                     const GatherOptions& options, std::span<T> to);

 private:
  enum Stage { kInside, kAcross, kCollect, kStages };

  struct Inbox;  // what came from one peer

  bool lossy() const { return options_.wire != dtype_of<T>(); }
  bool shares_rounding() const { return lossy() && options_.rounding == Rounding::shared; }
  DType result_type() const { return shares_rounding() ? options_.wire : dtype_of<T>(); }
  // This machine's sum of the extent that begins at `first`; a flat plan's is what was published.
  kernels::Source sum_at(const Round& round, std::size_t first) const;
  // What went to the carriers of other machines for that sum.
  kernels::Source sent_at(const Round& round, std::size_t first) const;
  // Where the mean of this worker's shard goes, from element `first` of the vector on.
  kernels::Destination<T> result_at(const Round& round, std::size_t first) const;
  // Writes the mean of an extent, given the total of all members as it travelled (the sum of `total`). What
  // this machine rounded away, `exact` - `rounded`, is spread over its own members, where it is kept.
  void write_mean(Stage stage, const Round& round, const Extent& extent, std::vector<kernels::Source> total,
                  const kernels::Source& exact, const kernels::Source& rounded);
  // What a rounding to int8 from element `first` on draws.
  std::uint64_t draw_at(const Round& round, Stage stage, std::size_t first) const;
  void begin_slot(comm::Window& window, const Round& round) const;
  // `weight`: the push-sum weights behind what is sent, summed.
  void publish(comm::Window& window, const Round& round, const std::vector<Message>& messages,
               std::size_t count, double weight) const;
  Inbox receive(comm::Window& window, Round& round, const Message& message, std::size_t members) const;
  void share_results(Round& round);

  const Options options_;
  std::vector<std::unique_ptr<kernels::Kernels<T>>> kernels_;    // by stage
  const std::unique_ptr<comm::Window> sums_, totals_, results_;  // null where no round needs them
  std::vector<T> kept_;   // sums that do not lie in a slot: owned ones; on a lossy wire all
  std::vector<T> exact_;  // totals before rounding, on a lossy wire
  std::vector<T> alone_;  // means of groups in which nobody else is of this machine
};

}  // namespace kith::gossip
