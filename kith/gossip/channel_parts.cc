#include "kith/gossip/channel_parts.h"

#include <set>

#include "kith/base/check.h"
#include "kith/base/rng.h"

namespace kith::gossip {
namespace {

// FNV-1a.
std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

bool lies_on_device(const comm::Transport& transport, const ChannelOptions& options) {
  return !options.work->device.host() && transport.device_windows() && !options.over_machines;
}

std::vector<WorkerId> neighbours_of(const graph::WorkerRound& period, const Members& members, Rank self) {
  std::set<Rank> ranks{self};
  for (const graph::Term& term : period.reads)
    ranks.insert(term.rank);
  ranks.insert(period.readers.begin(), period.readers.end());
  std::vector<WorkerId> workers;
  for (const Rank rank : ranks)
    workers.push_back(members.at(rank));
  return workers;
}

std::unique_ptr<comm::Window> open_window(comm::Transport& transport, const std::vector<WorkerId>& peers,
                                          const ChannelOptions& options, std::size_t bytes,
                                          Deadline deadline) {
  comm::WindowOptions window;
  window.name = options.name;
  window.bytes = bytes;
  window.shape_digest = hash_words(options.digest, options.wire, hash_text(options.codec));
  window.peers = peers;
  if (lies_on_device(transport, options)) {
    window.memory = comm::WindowMemory::device;
  } else {
    window.pin = options.work->device.pinner();
  }
  return transport.open(window, deadline);
}

template <class T>
std::unique_ptr<MachineReducer<T>> open_across(comm::Transport& transport, const std::vector<WorkerId>& peers,
                                               const graph::Schedule& schedule, const ChannelOptions& options,
                                               const std::vector<int>& machines, Deadline deadline) {
  if (!options.over_machines) return nullptr;
  return std::make_unique<MachineReducer<T>>(
      transport,
      typename MachineReducer<T>::Options{options.name, options.count, options.wire,
                                          HopSizes::of(schedule, machines, options.count, options.wire),
                                          machines, peers, deadline});
}

template <class T>
std::unique_ptr<Replicas<T>> make_replicas(const comm::Transport& transport, const Members& members,
                                           const graph::WorkerRound& period, const ChannelOptions& options) {
  if (options.codec.empty()) return nullptr;
  KITH_CHECK(!options.over_machines, "replicas are mixed, not averaged over machines");
  typename Replicas<T>::Options replicas;
  replicas.codec = options.codec;
  replicas.count = options.count;
  replicas.seed = options.digest;
  replicas.self = transport.self();
  for (const graph::Term& term : period.reads)
    replicas.peers.push_back(members.at(term.rank));
  replicas.keeps_message = options.read_later;
  replicas.device = &options.work->device;
  return std::make_unique<Replicas<T>>(replicas);
}

template <class T>
std::unique_ptr<GroupReducer<T>> open_reducer(comm::Transport& transport, const std::vector<WorkerId>& peers,
                                              const graph::Schedule& schedule, const ChannelOptions& options,
                                              Deadline deadline) {
  if (options.least_sum == 0 || !GroupReducer<T>::pays(schedule, options.count, options.least_sum))
    return nullptr;
  KITH_CHECK(options.work->device.host(), "the host sums groups");
  return std::make_unique<GroupReducer<T>>(
      transport, typename GroupReducer<T>::Options{options.name, options.count, peers, deadline});
}

template std::unique_ptr<MachineReducer<float>> open_across(comm::Transport&, const std::vector<WorkerId>&,
                                                            const graph::Schedule&, const ChannelOptions&,
                                                            const std::vector<int>&, Deadline);
template std::unique_ptr<Replicas<float>> make_replicas(const comm::Transport&, const Members&,
                                                        const graph::WorkerRound&, const ChannelOptions&);
template std::unique_ptr<GroupReducer<float>> open_reducer(comm::Transport&, const std::vector<WorkerId>&,
                                                           const graph::Schedule&, const ChannelOptions&,
                                                           Deadline);
template std::unique_ptr<MachineReducer<double>> open_across(comm::Transport&, const std::vector<WorkerId>&,
                                                             const graph::Schedule&, const ChannelOptions&,
                                                             const std::vector<int>&, Deadline);
template std::unique_ptr<Replicas<double>> make_replicas(const comm::Transport&, const Members&,
                                                         const graph::WorkerRound&, const ChannelOptions&);
template std::unique_ptr<GroupReducer<double>> open_reducer(comm::Transport&, const std::vector<WorkerId>&,
                                                            const graph::Schedule&, const ChannelOptions&,
                                                            Deadline);

}  // namespace kith::gossip
