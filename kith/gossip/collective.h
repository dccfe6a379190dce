#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kith/comm/transport.h"
#include "kith/gossip/group_reducer.h"
#include "kith/gossip/machine_reducer.h"

namespace kith::gossip {

struct CollectiveOptions {
  std::string name = "collective";
  std::size_t count = 0;  // elements of a vector, at most
  Clock::Duration open_timeout = std::chrono::seconds(60);
  PinMemory pin = {};              // for `outgoing`
  std::optional<DType> wire = {};  // what travels in a mean; default: T
};

// The mean of every member's vector, for the all-reduce baseline: everybody has windows with everybody, so
// that it takes few hops. What is rare goes over a Tree. The members call the same operations in the same
// order. One thread.
//
// A mean on a narrower wire is summed in T. What is rounded on the way stays rounded for everybody, so that
// all members end with the same bits, as on a plain wire.
template <class T>
class Collective {
 public:
  Collective(comm::Transport& transport, Members members, kernels::Kernels<T>& kernels, const Clock& clock,
             CollectiveOptions options);

  std::size_t capacity() const { return options_.count; }
  DType wire() const { return options_.wire.value_or(dtype_of<T>()); }
  std::size_t window_bytes() const;

  // x <- the members' mean. A missed member counts as oneself and is named in the report.
  RoundReport mean(std::span<T> x, Deadline deadline);

  // The same in two halves, without a copy: fill `outgoing` (`count` elements of the wire's type), then take
  // the mean into `to`.
  std::span<std::byte> outgoing(std::size_t count, Deadline deadline);
  RoundReport mean_of_outgoing(std::span<T> to, Deadline deadline);

 private:
  Version next_vector() { return {members_.view, vector_step_}; }
  comm::Transport& transport_;
  const Members members_;
  kernels::Kernels<T>& kernels_;
  const Clock& clock_;
  const CollectiveOptions options_;
  const Rank self_;
  const graph::WorkerRound everybody_;
  const std::vector<int> machines_;  // by rank
  const std::unique_ptr<comm::Window> vectors_;
  const std::unique_ptr<MachineReducer<T>> across_;  // null when all are on one machine
  const std::unique_ptr<GroupReducer<T>> reducer_;   // null when the group is too small for it, or on several
  std::uint64_t vector_step_ = 0;
};

}  // namespace kith::gossip
