#pragma once

#include <memory>
#include <vector>

#include "kith/gossip/channel.h"

namespace kith::gossip {

// What a channel is made of; null where its options ask for none.

// Rounds over machines are computed by the host, so it must be able to read the windows.
bool lies_on_device(const comm::Transport& transport, const ChannelOptions& options);

// Oneself, and who reads or is read by oneself in some round of the period (whole_period); ascending by rank.
// Whoever is in it has oneself in its own.
std::vector<WorkerId> neighbours_of(const graph::WorkerRound& period, const Members& members, Rank self);

// `peers` is neighbours_of(), here and below.
std::unique_ptr<comm::Window> open_window(comm::Transport& transport, const std::vector<WorkerId>& peers,
                                          const ChannelOptions& options, std::size_t bytes,
                                          Deadline deadline);

template <class T>
std::unique_ptr<MachineReducer<T>> open_across(comm::Transport& transport, const std::vector<WorkerId>& peers,
                                               const graph::Schedule& schedule, const ChannelOptions& options,
                                               const std::vector<int>& machines, Deadline deadline);

template <class T>
std::unique_ptr<Replicas<T>> make_replicas(const comm::Transport& transport, const Members& members,
                                           const graph::WorkerRound& period, const ChannelOptions& options);

template <class T>
std::unique_ptr<GroupReducer<T>> open_reducer(comm::Transport& transport, const std::vector<WorkerId>& peers,
                                              const graph::Schedule& schedule, const ChannelOptions& options,
                                              Deadline deadline);

}  // namespace kith::gossip
