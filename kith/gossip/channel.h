#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kith/comm/transport.h"
#include "kith/gossip/comm_threads.h"
#include "kith/gossip/completions.h"
#include "kith/gossip/consensus_sample.h"
#include "kith/gossip/gather.h"
#include "kith/gossip/group_reducer.h"
#include "kith/gossip/replicas.h"
#include "kith/graph/schedule.h"
#include "kith/kernels/device.h"
#include "kith/telemetry/sink.h"

namespace kith::gossip {

struct ChannelOptions {
  std::string name;       // of the window
  std::size_t count = 0;  // elements, in whole blocks of the wire
  DType wire = DType::f32;
  std::uint64_t digest = 0;  // the same for all; also what is random on the wire follows from it
  Clock::Duration patience{};
  bool keeps_values = false;   // on a lossy wire: keep the full-precision vector here (it lies nowhere else)
  bool values_move = false;    // the values that gather() is told are not those that were published
  bool over_machines = false;  // some round's group spans machines
  CommThreads* threads = nullptr;  // average such groups from their publication on; null: gather() does
  // Groups on one machine of at least so many are summed over shards, where that pays; host memory only.
  // 0: none.
  std::size_t least_sum = 0;
  // Differences by this codec travel (Note [Differences] in replicas.h); empty: the vector, as `wire`. No
  // groups over machines or shards.
  std::string codec = {};
  double consensus_step = 0;   // with a codec: x_i + step * sum_j w_ij (x^_j - x^_i); 0: the codec's own
  bool read_later = false;     // with a codec: versions are read in a later step than they are published
  DeviceWork* work = nullptr;  // where the vectors lie
  telemetry::Sink* trace = nullptr;  // null: no trace
};

// A vector that neighbours can read: a window with its version numbers, and the rounds of a schedule on it.
// Versions count publications from 1; everybody publishes once a round, so "the version I published last"
// names the same round everywhere. One thread calls it.
//
//   loop: gathered = gather(round t);  outgoing() <- a pass over gathered's mix;  publish(round t + 1);
//   finish()
//
// All addresses that it hands out are of the device. Where the window cannot lie there (another machine reads
// it, or the transport knows host memory only) the two slots on the device are copied to the window when they
// are published, and arrivals to the device before they are read.
template <class T>
class Channel {
 public:
  // Everything referred to must outlive the channel. Opens its windows with the neighbours
  // of the schedule's period: with all members only where those are neighbours.
  Channel(comm::Transport& transport, const Members& members, const graph::Schedule& schedule,
          const Clock& clock, const ChannelOptions& options);

  bool coded() const { return replicas_ != nullptr; }
  bool lossy() const { return options_.wire != dtype_of<T>() || coded(); }
  std::uint64_t published() const { return published_; }
  // Continues the numbering after `published` publications made before this process began.
  void continue_after(std::uint64_t published) { published_ = published; }

  // The slot of a version, plain wire only.
  T* slot(std::uint64_t version) const;

  // Where the next version's elements from `first` on go. Waits, boundedly, until the slot is free; Error if
  // a peer never lets go.
  kernels::Destination<T> outgoing(std::size_t first);
  // The next version's slot, as bytes.
  std::byte* next_slot();
  // The next version is for the readers in `round`. With threads, a group that spans machines is averaged
  // from its publication on, while the model computes. Without `exchanges` there is no round, for anybody.
  void publish(const graph::WorkerRound& round, double weight, bool exchanges = true);

  // Awaits the readable neighbours of `round` at the version published last. `own_values` are the
  // full-precision values behind it, or null when they lie in the window or here. Held until finish().
  // Without a deadline, a neighbour has `patience`.
  const Gathered& gather(const graph::WorkerRound& round, const void* own_values, double weight,
                         std::optional<Deadline> deadline = {});

  // How far the arrivals of the last gather() lie from what was published here, or the mean of their group
  // where only that is known; `weight` is one's own push-sum weight. Nothing where they are not in host
  // memory, or nobody came.
  NeighbourSample sample_neighbours(double weight) const;
  // The values behind the version published last, from element `first` on; null where they are not here: in
  // host memory, of a channel that keeps them.
  const T* published_values(std::size_t first) const;

  // When the device has reached the mark, what was published becomes visible and what was gathered is
  // released.
  void finish(const kernels::Mark& mark);

  std::size_t window_bytes() const { return 2 * largest_message(); }
  std::size_t staging_bytes() const;
  // Of the version published last.
  std::size_t message_bytes() const { return coded() ? written_ : bytes_of(options_.wire, options_.count); }

  // With a codec: what is known of whom, to be saved, or restored before take_replicas(). Zeros: nothing yet.
  std::span<std::byte> replicas() { return coded() ? replicas_->state() : std::span<std::byte>(); }
  // What replicas() gave out may have been filled since.
  void take_replicas() {
    if (coded()) replicas_->take_state();
  }

 private:
  struct Publication {
    std::uint64_t number = 0;
    graph::WorkerRound round;
    double weight = 1;
    std::size_t bytes = 0;
  };

  std::size_t largest_message() const {
    return coded() ? replicas_->largest_message() : bytes_of(options_.wire, options_.count);
  }
  std::byte* slot_bytes(std::uint64_t number) const;
  void make_visible(const Publication& publication, kernels::Queue& queue);
  void encode(bool exchanges);
  const Gathered& gather_replicas(const graph::WorkerRound& round, const Own& own,
                                  const GatherOptions& options);
  // Follows the messages that came.
  void take_messages(const std::vector<comm::Arrival>& arrivals);
  // The device's copy of arrival k, under way.
  const std::byte* copy_of(std::size_t k, const comm::Arrival& arrival);
  const Gathered& take_mean(typename MachineReducer<T>::Round& round, const Own& own,
                            const std::vector<Rank>& group);
  // The mix reads copies of the arrivals on the device.
  void copy_arrivals();
  // A message is on its way from its publication until this worker has taken it up.
  void trace_messages() const;
  // The same message where it begins, with an arrow to each reader.
  void trace_publication(std::uint64_t number, const comm::PublishOptions& options) const;
  // The same on both sides.
  std::string flow_id(WorkerId writer, Version which, WorkerId reader) const;
  GatherOptions gather_options(std::uint64_t number, std::optional<Deadline> deadline = {}) const;
  // A version as the host sees it.
  Own on_host(std::uint64_t number, double weight) const;
  Version version(std::uint64_t number) const { return {members_.view, number}; }
  // The same for all workers, also in another view and after a restart.
  std::uint64_t draw_of(std::uint64_t number) const;

  comm::Transport& transport_;
  const Members& members_;
  const graph::Schedule& schedule_;
  const Clock& clock_;
  const ChannelOptions options_;
  DeviceWork& work_;
  const Rank self_;
  const std::vector<int> machines_;              // by rank
  const graph::WorkerRound period_;              // everybody that is read and reads
  const std::vector<WorkerId> peers_;            // of the windows
  const std::unique_ptr<Replicas<T>> replicas_;  // null without a codec
  const std::unique_ptr<comm::Window> window_;
  const bool copies_;                                // the window lies in host memory, the vectors do not
  std::array<kernels::Buffer, 2> slots_;             // where the window is a copy of them
  std::vector<kernels::Buffer> inbox_;               // copies of arrivals
  kernels::Mark inbox_read_;                         // when the passes that read them last are done
  const std::unique_ptr<MachineReducer<T>> across_;  // null when no group spans machines
  const std::unique_ptr<GroupReducer<T>> reducer_;   // null when no group is summed over shards
  // Of a group that spans machines, where the model is not in host memory: pinned, and on the device.
  kernels::Buffer mean_, mean_here_;
  std::future<std::unique_ptr<typename MachineReducer<T>::Round>> averaging_;  // under way
  kernels::Buffer values_;
  kernels::Buffer prefixes_;  // with a codec and windows on the device: how the messages that came begin
  std::size_t written_ = 0;   // with a codec: bytes of the version published last
  bool exchanged_ = false;    // the version published last is of a round
  bool fresh_ = true;         // nothing was published here so far
  std::uint64_t published_ = 0;
  double kept_ = 0;  // of the version published last, Note [Mass after a loss]
  bool next_is_open_ = false;
  std::optional<Publication> publication_;  // not yet handed over
  // What was put off and is not done: publications, and releases of what was gathered. A step of several
  // rounds comes back before its device has done the round before, and waits for these.
  std::atomic<int> publishing_ = 0, releasing_ = 0;
  std::optional<Gathered> gathered_;
  ConsensusSample meant_;         // of the mean that was gathered last
  std::vector<graph::Term> row_;  // of the round that was gathered last, plain or rounded wires
};

}  // namespace kith::gossip
