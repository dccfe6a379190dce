#pragma once

#include <array>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kith/engine/comm_threads.h"
#include "kith/engine/completions.h"
#include "kith/engine/world.h"
#include "kith/gossip/gather.h"
#include "kith/graph/schedule.h"
#include "kith/kernels/device.h"

namespace kith::engine {

struct ChannelOptions {
  std::string name;       // of the window
  std::size_t count = 0;  // elements
  DType wire = DType::f32;
  std::uint64_t digest = 0;
  Clock::Duration patience{};
  bool keeps_values = false;  // on a lossy wire: keep the full-precision vector here (it lies nowhere else)
  bool values_move = false;   // the values that gather() is told are not those that were published
  const graph::Schedule* schedule = nullptr;
  CommThreads* threads = nullptr;  // for rounds over machines; null when the schedule has none
  DeviceWork* work = nullptr;      // where the vectors lie
};

// One vector of a bucket that neighbours can read: a window with its version numbers. Versions count
// publications from 1; everybody publishes once a step, so "the version I published last" names the same step
// everywhere.
//
// All addresses that it hands out are of the device. Where the window cannot lie there (another machine reads
// it, or the transport knows host memory only) the two slots on the device are copied to the window when they
// are published, and arrivals to the device before they are read.
template <class T>
class Channel {
 public:
  Channel(const World& world, const ChannelOptions& options);

  bool lossy() const { return options_.wire != dtype_of<T>(); }
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
  // The next version is for the readers in `round`. A group that spans machines is averaged from its
  // publication on, while the model computes.
  void publish(const graph::WorkerRound& round, double weight);

  // Awaits the readable neighbours of `round` at the version published last. `own_values` are the
  // full-precision values behind it, or null when they lie in the window or here. Held until finish().
  const gossip::Gathered& gather(const graph::WorkerRound& round, const void* own_values, double weight);

  // When the device has reached the mark, what was published becomes visible and what was gathered is
  // released.
  void finish(const kernels::Mark& mark);

  std::size_t window_bytes() const { return 2 * message_bytes(); }
  std::size_t staging_bytes() const;
  std::size_t message_bytes() const { return options_.count * size_of(options_.wire); }

 private:
  struct Publication {
    std::uint64_t number = 0;
    graph::WorkerRound round;
    double weight = 1;
  };

  std::byte* slot_bytes(std::uint64_t number) const;
  void make_visible(const Publication& publication, kernels::Queue& queue);
  const gossip::Gathered& take_mean(const gossip::Own& own);
  // The mix reads copies of the arrivals on the device.
  void copy_arrivals();
  // A message is on its way from its publication until this worker has taken it up.
  void trace_messages() const;
  gossip::GatherOptions gather_options(std::uint64_t number) const;
  Version version(std::uint64_t number) const { return {world_.members.view, number}; }

  const World& world_;
  const ChannelOptions options_;
  DeviceWork& work_;
  const std::vector<int> machines_;  // by rank
  const std::unique_ptr<comm::Window> window_;
  const bool copies_;                     // the window lies in host memory, the vectors do not
  std::array<kernels::Buffer, 2> slots_;  // where the window is a copy of them
  std::vector<kernels::Buffer> inbox_;    // copies of arrivals
  const std::unique_ptr<gossip::MachineReducer<T>> across_;  // null when no group spans machines
  kernels::Buffer mean_;                                     // of a group that spans machines, host memory
  kernels::Buffer mean_here_;                                // the same on the device
  std::future<gossip::RoundReport> averaging_;               // under way
  kernels::Buffer values_;
  std::uint64_t published_ = 0;
  double kept_ = 0;  // of the version published last, Note [Mass after a loss]
  bool next_is_open_ = false;
  std::optional<Publication> publication_;  // not yet handed over
  std::optional<gossip::Gathered> gathered_;
};

}  // namespace kith::engine
