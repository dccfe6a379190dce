#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kith/base/error.h"
#include "kith/comm/transport.h"
#include "kith/gossip/report.h"
#include "kith/gossip/tree_place.h"
#include "kith/kernels/kernels.h"

namespace kith::gossip {

struct TreeOptions {
  std::string name = "tree";
  std::size_t count = 0;  // elements of a vector, at most
  Clock::Duration open_timeout = std::chrono::seconds(60);
};

// Operations with every member, for what is rare: the first model, evaluation, consensus distance, agreement.
// The members call the same operations in the same order. One thread.
//
// A member shares a window with at most five others, however many there are: with its parent and its children
// in a tree (TreePlace), and with the ranks before and after its own.
//
// Note [Ways over the tree]
//   broadcast  away from the root, in pieces: who gets one passes it on while the next one comes. With m
//              pieces and n members the last has it after m + 2 log2 n pieces' times, and nobody sends more
//              than three vectors.
//   gather     up to rank 0, which sends the whole down.
//   mean       sums run in rank order, so that all paths to a mean give the same bits (those of Collective on
//              one machine). Where all members' vectors fit into one message they go up to rank 0, which adds
//              them. Others are summed from rank to rank in pieces, each adding its own, and the last one
//              broadcasts the sums: n + m pieces' times, in which nobody sends more than four vectors.
//
// When a neighbour does not come, that word takes the way that the numbers would have taken, so nobody waits
// for its deadline. Who is behind the one that is missing may be missing for the others, too.
template <class T>
class Tree {
 public:
  Tree(comm::Transport& transport, Members members, kernels::Kernels<T>& kernels, const Clock& clock,
       TreeOptions options);

  std::size_t capacity() const { return options_.count; }
  std::size_t window_bytes() const;

  // x <- the members' mean; as it was, where somebody is missing: the report names one.
  RoundReport mean(std::span<T> x, Deadline deadline);

  // x <- the root's x. Error naming who is missing, when it does not come before the deadline.
  void broadcast(std::span<T> x, Rank root, Deadline deadline);

  // Everybody's value in rank order. A missed member's is NaN; one of them is told, where asked for. Then not
  // everybody has the same values.
  std::vector<double> gather(double value, Deadline deadline, std::optional<WorkerId>* missing = nullptr);

  // Mean over the members of |x_i - mean|^2. Leaves x as it is; costs a copy of it, and the mean unless that
  // is given. Error when a member is missing.
  double squared_consensus_distance(std::span<const T> x, Deadline deadline);
  double squared_consensus_distance(std::span<const T> x, std::span<const T> mean, Deadline deadline);

 private:
  // What becomes of numbers in which somebody's are missing.
  enum class Incomplete : std::uint8_t { dropped, passed_on };
  using Bytes = std::span<std::byte>;

  int size() const { return members_.size(); }
  std::size_t pieces_of(std::size_t bytes) const;
  Bytes piece_of(Bytes whole, std::size_t index) const;
  Bytes take_slot(std::uint64_t step, Deadline deadline);
  Version version(std::uint64_t step) const { return {members_.view, step}; }
  // REQUIRES: the step's slot was taken, and holds that many bytes.
  void publish(std::uint64_t step, std::size_t bytes, const std::vector<Rank>& readers,
               const RoundReport& report);
  // A copy of them, with the word of who is missing. Nothing where nobody reads it.
  void send(std::uint64_t step, std::span<const std::byte> bytes, const std::vector<Rank>& readers,
            const RoundReport& report, Deadline deadline);
  // What a neighbour has sent; nothing, where that is no numbers but a word of who is missing, or the
  // neighbour is. The report knows.
  std::optional<comm::Arrival> receive(Rank from, std::uint64_t step, RoundReport& report, Deadline deadline);
  // Nothing more of this operation is awaited of that neighbour; `last` is its last step.
  void leave(Rank from, std::uint64_t step, std::uint64_t last);

  // Steps of the window that an operation takes are the same on all members, whatever happens.
  std::uint64_t take_steps(std::uint64_t count);
  // `whole` <- the root's, passed on. What is missing at the root is in `report` before.
  void relay(Bytes whole, Rank root, Incomplete incomplete, RoundReport& report, Deadline deadline);
  // Rows of `row.size()` bytes in rank order, of the own subtree; others are left as they are.
  void collect(std::span<const std::byte> row, Bytes table, RoundReport& report, Deadline deadline);
  // At the last rank x becomes the sum of all.
  void sum_along(std::span<T> x, RoundReport& report, Deadline deadline);
  Error incomplete(WorkerId missing) const;

  comm::Transport& transport_;
  const Members members_;
  kernels::Kernels<T>& kernels_;
  const TreeOptions options_;
  const TreePlace place_;
  const std::unique_ptr<comm::Window> window_;
  std::uint64_t step_ = 0;
};

}  // namespace kith::gossip
