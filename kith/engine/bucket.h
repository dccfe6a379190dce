#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kith/engine/collectives.h"
#include "kith/engine/engine.h"
#include "kith/graph/schedule.h"
#include "kith/kernels/device.h"

namespace kith::engine {

// What a bucket is told about a step; all but the rounds is the same for all buckets.
struct StepContext {
  std::int64_t step = 0;
  int rounds = 1;                  // 0: it does not mix
  std::int64_t rounds_before = 0;  // of all steps before
  std::vector<graph::WorkerRound>
      now;                  // this step's rounds, at least one; oneself alone where it does not mix
  graph::WorkerRound next;  // the next step's first
  bool next_mixes = true;
  graph::WorkerRound coming;      // the first of the next step that mixes
  bool measures_updates = false;  // StepReport::update_squares is wanted
  double gradient_scale = 1;
  const double* gradient_factor = nullptr;  // on the device, once it has come so far; null: none
  bool skip = false;                        // gradients are not used
  std::optional<Deadline> deadline = {};    // of the step's rounds; none: EngineOptions::patience from now
};

// A bucket at work, whatever its element type. Segments are named by their index in the engine's table.
class Bucket {
 public:
  virtual ~Bucket() = default;

  // Its segments, in the order they lie in it.
  virtual const std::vector<std::size_t>& indices() const = 0;

  // Takes the inputs of a step; then run(phase) for each phase, then end_step.
  virtual void begin_step(const StepContext& context, std::span<const SegmentInput> inputs) = 0;
  virtual int phases() const = 0;
  virtual void run(int phase) = 0;
  virtual void end_step(StepReport& report) = 0;

  virtual void* data(std::size_t segment) const = 0;
  virtual std::vector<void*> places(std::size_t segment) const = 0;

  // Before the first step: the model is what the segments hold (start) or what state() was filled with
  // (restore).
  virtual void adopt(std::int64_t step, std::span<const Segment> segments) = 0;
  virtual void share_start(Collectives& collectives, Deadline deadline) = 0;
  virtual void publish_first(const StepContext& first) = 0;

  // Averages the gradients with everybody, or with one's node; called by the communication thread, in the
  // order of the buckets. `ready`: when the gradients are in place.
  virtual void reduce_gradients(std::span<const SegmentInput> inputs, const kernels::Mark& ready,
                                Deadline deadline) = 0;
  // Who did not take part in the averaging, if anybody did not.
  virtual std::optional<WorkerId> missing() const = 0;
  // In the step under way the worker's own gradients take the place of means that could not be had.
  virtual void use_own_gradients() = 0;
  // Writes the gradients that the step would use to `to`, by segment, and marks those that there are. The
  // step that follows uses its inputs' gradients.
  virtual void hand_out_gradients(std::span<const SegmentInput> inputs, std::span<void* const> to,
                                  std::vector<bool>& there) = 0;
  // The gradients that the step will use.
  virtual void add_gradients(std::span<const SegmentInput> inputs,
                             std::vector<kernels::Vector>& gradients) const = 0;

  // Returns the squared consensus distance. `to` may be empty.
  virtual double average(Collectives& collectives, std::span<void* const> to, Deadline deadline) = 0;
  virtual double squared_consensus_distance(Collectives& collectives, Deadline deadline) = 0;

  virtual void state(std::vector<StateSpan>& spans) = 0;
  virtual void add_memory(MemoryUse& use) const = 0;
};

}  // namespace kith::engine
