#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kith/comm/transport.h"
#include "kith/gossip/channel.h"

namespace kith::gossip {

struct MixerOptions {
  std::string name = "mix";  // of the windows
  std::size_t count = 0;     // elements of the vector
  DType wire = DType::f32;   // T's own type, bf16, fp16 or int8
  Clock::Duration open_timeout = std::chrono::seconds(60);
  bool sums_groups = true;  // groups on one machine over shards, where that pays
};

// Runs the rounds of a schedule on one vector per worker: x_i <- sum_j W_t[i,j] x_j for t = 0, 1, 2, ... A
// channel and nothing else: no gradients, no optimizer.
//
//   Mixer<float> mixer(transport, schedule, members, kernels, clock, options);
//   fill(mixer.values());
//   mixer.start();                        // the first version is visible to the neighbours
//   for (...) report = mixer.round(deadline);
//
// On a plain wire the vector lies in the window: a round reads the neighbours' slots and writes the next
// version straight into one's own other slot, then publishes it. One thread.
template <class T>
class Mixer {
 public:
  // Everything referred to must outlive the mixer. Opens its windows with the neighbours of
  // the schedule's period.
  Mixer(comm::Transport& transport, const graph::Schedule& schedule, Members members,
        kernels::Kernels<T>& kernels, const Clock& clock, MixerOptions options);

  // The current vector. May be written before start(); only read afterwards.
  std::span<T> values() { return {values_, options_.count}; }

  void start();
  // Executes round t and moves on to t + 1. REQUIRES: start() was called.
  RoundReport round(Deadline deadline);
  std::int64_t next_round() const { return t_; }

  // Push-sum: values() / weight() is the estimate of the mean on a directed schedule.
  double weight() const { return weight_; }

 private:
  ChannelOptions channel_options(const comm::Transport& transport);
  void publish();

  const graph::Schedule& schedule_;
  const Members members_;
  kernels::Kernels<T>& kernels_;
  const Clock& clock_;
  const MixerOptions options_;
  const Rank self_;
  DeviceWork work_;
  Channel<T> channel_;
  T* values_;  // where the vector of round t_ lies
  std::int64_t t_ = 0;
  double weight_ = 1;
};

}  // namespace kith::gossip
