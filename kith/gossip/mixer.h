#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kith/comm/transport.h"
#include "kith/gossip/gather.h"
#include "kith/gossip/group_reducer.h"
#include "kith/gossip/machine_reducer.h"

namespace kith::gossip {

struct MixerOptions {
  std::string name = "mix";  // of the windows
  std::size_t count = 0;     // elements of the vector
  DType wire = DType::f32;   // T's own type, or bf16 / fp16
  Clock::Duration open_timeout = std::chrono::seconds(60);
  bool measure_shift = false;  // fill RoundReport::squared_shift: one more pass
};

// Runs the rounds of a schedule on one vector per worker: x_i <- sum_j W_t[i,j] x_j for t = 0, 1, 2, ...
//
//   Mixer<float> mixer(transport, schedule, members, kernels, options);
//   fill(mixer.values());
//   mixer.start();                        // version 0 is visible to the neighbours
//   for (...) report = mixer.round(deadline);
//
// On a plain wire the vector lives in the window: a round reads the neighbours' slots and writes the next
// version straight into one's own other slot, then publishes it. One thread.
template <class T>
class Mixer {
 public:
  // Everything referred to must outlive the mixer. Opens its windows with all members.
  Mixer(comm::Transport& transport, const graph::Schedule& schedule, Members members,
        kernels::Kernels<T>& kernels, const Clock& clock, MixerOptions options);

  // The current vector. May be written before start(); only read afterwards.
  std::span<T> values();

  void start();
  // Executes round t and moves on to t + 1. REQUIRES: start() was called.
  RoundReport round(Deadline deadline);
  std::int64_t next_round() const { return t_; }

  // Push-sum: values() / weight() is the estimate of the mean on a directed schedule.
  double weight() const { return weight_; }

 private:
  Own own(Version v);
  Version version(std::int64_t t) const { return {members_.view, static_cast<std::uint64_t>(t)}; }
  void publish(std::int64_t t);
  RoundReport mix_group_across(const graph::WorkerRound& round, const Own& own,
                               const kernels::Destination<T>& to, const GatherOptions& options);

  comm::Transport& transport_;
  const graph::Schedule& schedule_;
  const Members members_;
  kernels::Kernels<T>& kernels_;
  const Clock& clock_;
  const MixerOptions options_;
  const Rank self_;
  const std::vector<int> machines_;  // by rank
  const std::unique_ptr<comm::Window> window_;
  const std::unique_ptr<GroupReducer<T>> reducer_;   // null when no group is large enough
  const std::unique_ptr<MachineReducer<T>> across_;  // null when no group spans machines
  std::vector<T> private_values_;                    // lossy wire only
  std::vector<T> mean_;                              // lossy wire, groups that span machines
  std::int64_t t_ = 0;
  double weight_ = 1;
  double kept_ = 0;  // of the version published last, Note [Mass after a loss]
};

}  // namespace kith::gossip
