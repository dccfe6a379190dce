#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kith/engine/engine.h"
#include "kith/gossip/collective.h"
#include "kith/gossip/device_reducer.h"
#include "kith/kernels/device.h"

namespace kith::engine {

struct GradientReductionOptions {
  std::string name;                 // of the window
  std::size_t count = 0;            // elements of the bucket
  std::vector<std::size_t> firsts;  // where its segments begin in it
  DType wire = DType::f32;          // what travels, both ways
  Clock::Duration patience{};
  kernels::Device* device = nullptr;
  gossip::DeviceReducers* reducers = nullptr;  // null: through host memory
};

// All-reduce of one bucket's gradients, by the communication thread; a step that follows reads the means.
// Means go from device to device where the engine has reducers for that, else the vector is copied to a
// window, averaged by the host and copied back. On a narrower wire gradients are rounded to it, summed in T
// and the result rounded again on its way; all workers end with the same bits.
template <class T>
class GradientReduction {
 public:
  GradientReduction(const WorldParts& world, const GradientReductionOptions& options);
  // Waits for what no step has taken up.
  ~GradientReduction();
  GradientReduction(const GradientReduction&) = delete;
  GradientReduction& operator=(const GradientReduction&) = delete;

  // Averages with everybody. One vector per segment, null data where this worker has no gradient; `ready`:
  // when they are in place.
  void reduce(std::span<const kernels::Vector> gradients, const kernels::Mark& ready, Deadline deadline);

  // Segment k's mean on the device, from mark() on; null when nobody has a gradient.
  const T* mean(std::size_t k) const;
  const kernels::Mark& mark() const { return mark_; }
  // Somebody who did not take part in a reduction since take_tally().
  std::optional<WorkerId> missing() const { return missing_; }
  // Of the reductions since the last call.
  StepReport take_tally();

  void add_memory(MemoryUse& use) const;

 private:
  std::size_t elements() const { return options_.count + options_.firsts.size(); }
  kernels::Queue& queue() const { return direct_ ? direct_->queue() : *queue_; }
  std::size_t wire_bytes(std::size_t count) const { return count * size_of(options_.wire); }
  bool lossy() const { return options_.wire != dtype_of<T>(); }
  // The gradients in one piece, and which of them there are (in host memory), as they travel.
  void collect(std::span<const kernels::Vector> gradients, std::byte* to, std::byte* flags);
  void reduce_directly(std::span<const kernels::Vector> gradients, Deadline deadline);
  void reduce_through_host(std::span<const kernels::Vector> gradients, Deadline deadline);

  const WorldParts& world_;
  const GradientReductionOptions options_;
  const std::unique_ptr<gossip::DeviceReducer> direct_;  // null: through host memory
  const std::unique_ptr<kernels::Queue> queue_;          // null where `direct_` has one
  const std::unique_ptr<kernels::Kernels<T>> kernels_;
  std::unique_ptr<kernels::Kernels<T>> host_kernels_;  // of the collective
  std::unique_ptr<gossip::Collective<T>> collective_;
  kernels::Buffer outgoing_;    // on another device: the gradients in one piece, as they travel
  kernels::Buffer host_;        // means (through host memory only), then flags
  kernels::Buffer means_;       // on the device
  kernels::Buffer travelling_;  // flags that a reducer of the device takes along
  std::span<T> flags_;          // in host_, one per segment: somebody has one
  kernels::Mark mark_;
  StepReport tally_;
  std::optional<WorkerId> missing_;  // in the means
};

}  // namespace kith::engine
