#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/ids.h"
#include "kith/engine/options.h"
#include "kith/engine/segment.h"
#include "kith/engine/world_parts.h"
#include "kith/gossip/consensus_sample.h"
#include "kith/kernels/device.h"

namespace kith::engine {

class ViewFollower;

// What a step does with gradients that hold inf or NaN.
//   use   what plain arithmetic does
//   skip  the worker mixes with its neighbours but does not move; moments and step counts stay. Costs one
//         pass over the gradients, and the host waits for the device: whether a step counts decides what
//         the next one computes
enum class NonFinite : std::uint8_t { use, skip };

struct StepOptions {
  double gradient_scale = 1;  // multiplies every gradient: loss scaling, 1/micro-batches
  // The largest norm of the scaled gradient over the whole model; larger ones are scaled down to it. The norm
  // stays on the device.
  std::optional<double> max_norm = {};
  NonFinite non_finite = NonFinite::use;
};

// What a step took of one neighbour.
struct PeerRead {
  WorkerId peer;
  std::int64_t steps = 0;         // of that worker's, whose gradients are in it
  gossip::ConsensusSample apart;  // how far from one's own; nothing where it was not looked at
};

struct StepReport {
  std::int64_t step = 0;         // the step just done, from 0
  Clock::Duration waited{};      // for neighbours, while the step stood still
  std::uint64_t bytes_read = 0;  // of neighbours' models
  std::uint64_t bytes_published = 0;
  double missing_weight = 0;
  std::vector<PeerRead> read;  // each neighbour once; nobody where gradients are averaged
  std::vector<WorkerId> late;  // each once
  std::vector<WorkerId> lost;
  // The view that the step ended in (EngineOptions::reforms); another one than before where somebody is gone.
  std::uint32_t view = 0;
  // Against the models that were read in the first round; nothing where they are not in host memory.
  gossip::ConsensusSample consensus;
  int rounds = 0;       // of the schedule that it took
  bool capped = false;  // control (EngineOptions::control) wanted more
  // Squared norm of what the optimizer did to the model, from a sample; only where control goes by it.
  double update_squares = 0;
  // Of the whole gradient, scaled, before clipping; valid where max_norm or NonFinite::skip asked for it.
  // get() waits until the device has computed it.
  std::shared_future<double> gradient_norm;
  bool skipped = false;  // the gradients held inf or NaN: mixed, but not moved
};

// A part of a worker's state, to be saved and restored byte for byte.
struct StateSpan {
  std::string name;
  std::span<std::byte> bytes;
  bool of_algorithm = false;
  bool of_view = false;  // of the windows among these members: it begins anew with others
};

// An operation with everybody that the others had finished and left behind when a member was lost: it cannot
// be made up for. The engine is as good as before.
class Overtaken : public Error {
 public:
  using Error::Error;
};

// What a worker that joined a running job got, besides the model.
struct Joined {
  std::int64_t step = 0;         // steps that the donor had done when its state was copied
  std::vector<std::byte> extra;  // what it gave along (Engine::give_along)
};

// Bytes that the engine itself holds per purpose; the model's gradients and activations are not its own.
struct MemoryUse {
  std::size_t windows = 0;  // published slots (in the alternating layout: the parameters themselves)
  std::size_t state = 0;    // optimizer and algorithm state
  std::size_t staging = 0;  // copies next to the parameters, all-reduce buffers
  std::size_t total() const { return windows + state + staging; }
};

// Trains one model, known as a table of segments, by one algorithm. Torch-free. One thread calls it;
// `gradient_ready` is for the same thread (during backward).
//
//   Engine engine(world, options, segments);
//   engine.start();                      // or restore()
//   loop: backward; engine.step(inputs, {});
//         for each segment i: the parameter now lies at engine.data(i)
class Engine {
 public:
  // Opens the windows together with all members. InputError for a bad combination of options. Segments and
  // gradients lie on `device`, and so does what the engine itself keeps; the device outlives it.
  //
  // A newcomer (WorldParts::newcomer) takes over the state of a member while everybody trains, and is one
  // itself when this returns: steps() is then that of the others, and start() does nothing. The shape in its
  // options is not looked at. InputError when it does not fit the job, launch::TooLate when that is over;
  // bounded by options.patience.
  Engine(WorldParts world, EngineOptions options, std::vector<Segment> segments,
         kernels::Device& device = kernels::host_device());
  // A second at most, whatever the neighbours do: waits for them are cancelled.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const EngineOptions& options() const;
  const WorldParts& world() const;

  // Makes everybody's model rank 0's (unless options.same_start is false) and publishes the first version.
  void start();

  // One step with the gradients in `inputs` (one per segment, in the order of the table). Bounded. On an
  // asynchronous device the step's work is on the compute queue when this returns, and gradients may be
  // overwritten by work put there later (Note [Put off until the device is done]).
  //
  // With EngineOptions::reforms it begins by moving to the next view, where one was called for; a worker that
  // the others have gone on without gets launch::LeftOut.
  //
  // A step that throws leaves the model half stepped: the engine is of no use afterwards. Every later step,
  // collective operation and state() is an Error that names the first failure.
  StepReport step(std::span<const SegmentInput> inputs, const StepOptions& options);
  std::int64_t steps() const;  // done so far

  // Where segment i's parameter lies now. Changes with every step in the alternating layout, and in it with
  // every view (also in a collective operation); never in the staged one.
  void* data(std::size_t segment) const;
  // All places it can lie in (one, or two), until the view changes.
  std::vector<void*> places(std::size_t segment) const;
  Layout layout() const;  // alternating or staged

  // Where gradients are averaged (all-reduce, EngineOptions::inside): segment i's is final; its bucket is
  // averaged in the background once it is complete. Segments never reported are taken at step(). Else a
  // no-op.
  void gradient_ready(std::size_t segment, const SegmentInput& input);

  // Norm of the gradients that the next step will use, over all segments, in double. Waits for the device,
  // and where gradients are averaged for the averages.
  double gradient_norm(std::span<const SegmentInput> inputs);

  // *found, on the device, becomes 1 where one of them holds inf or NaN, else 0; in the order of its compute
  // queue: waits for no device.
  void find_non_finite(std::span<const SegmentInput> inputs, float* found);

  // Where gradients are averaged: waits until they are and writes the mean of segment i's to to[i], on
  // the device, in the segment's own type; it may be the gradient itself. False for a segment of which nobody
  // has one, whose to[i] stays as it is. The next step takes the gradients of its own inputs for the means,
  // changed or not.
  std::vector<bool> mean_gradients(std::span<const SegmentInput> inputs, std::span<void* const> to);

  // Collective operations: every member calls them after the same step. Bounded by options.patience; Error
  // when a member is missing, or with EngineOptions::reforms done among the others, but for Overtaken. They
  // go through host memory, and wait for the device.
  // Writes the members' mean of segment i to `to[i]`, on the device, in the segment's own type. Returns the
  // consensus distance.
  double average(std::span<void* const> to);
  double consensus_distance();
  // The numbers become their mean over all members, the same bits on all of them.
  void mean(std::span<double> numbers);
  // The numbers become rank 0's. Before the first step: nobody is replaced in it.
  void share(std::span<double> numbers);
  // Collective among the workers of a node that is one model (EngineOptions::inside): the numbers become
  // their mean, the same bits on all of them. Else nothing. With EngineOptions::reforms it is false when one
  // of them is gone: some may have the mean then, and others not, until all come to agree again after the
  // first step of the next view.
  bool average_inside(std::span<double> numbers);
  // Everybody's value in rank order, of the view in which it was done. Without views a missing member's is
  // NaN, and so may be others' that would have come with it. Whoever has called it has also let go of all
  // that it read of others' models.
  std::vector<double> gather(double value);

  // With EngineOptions::reforms: this worker leaves, on purpose. The others agree on a view without it; until
  // that begins it mixes on, without gradients, and in push-sum it hands its mass over. Nothing but the
  // destructor may follow. Else nothing happens, and the others miss it.
  void finish();
  // Who has left so, in all views so far.
  const std::vector<WorkerId>& left() const;
  // In a newcomer: what it began with.
  const std::optional<Joined>& joined() const;
  // What a newcomer is to get along with the state: called by the thread that steps, between two steps, on
  // whichever member is its donor.
  void give_along(std::function<std::vector<std::byte>()> extra);

  // The step at which the view that stands began; 0 for the first. The same on all its members.
  std::int64_t view_began() const;
  // Collective operations done so far; the same on workers that are at the same point of their programs,
  // whatever views there were. For names of what they agree on through the Store.
  std::int64_t operations() const;

  // State to save after a step; with the step number it is everything. In host memory, valid until the next
  // step.
  std::vector<StateSpan> state();
  // Instead of start(): the engine stands after `step` steps; fill state() and then call resume().
  void restore(std::int64_t step);
  void resume();

  MemoryUse memory() const;
  std::size_t buckets() const;
  // How the model is cut. State fits an engine with the same cut, whatever its topology.
  Cut cut() const;
  // The segments that lie in bucket b, whole or in part, in their order there.
  std::vector<std::size_t> bucket(std::size_t b) const;

 private:
  friend class ViewFollower;
  class Impl;
  std::unique_ptr<ViewFollower> views_;
};

}  // namespace kith::engine
