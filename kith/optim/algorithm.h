#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kith/gossip/gather.h"
#include "kith/kernels/kernels.h"
#include "kith/optim/local_step.h"
#include "kith/optim/options.h"

namespace kith::optim {

// Words: a *bucket* is a contiguous block of parameters, a *segment* one parameter in it, a *channel* one
// vector per bucket that neighbours can read, *state* what an algorithm or optimizer keeps to itself.

struct SegmentView {
  std::size_t first = 0;  // of the segment in its bucket
  std::size_t count = 0;
  StepInput input;
};

// What an algorithm sees of one bucket during one step. Implemented by the engine; vectors of a bucket are
// addressed per segment, because a model's parameters need not be contiguous.
template <class T>
class BucketStep {
 public:
  virtual ~BucketStep() = default;

  // They may be cut finer by gather(): where a mix changes in the middle of one.
  virtual const std::vector<SegmentView>& segments() const = 0;

  // The model the gradient was taken at.
  virtual const T* model(const SegmentView& s) const = 0;
  // Where the next model goes.
  virtual kernels::Destination<T> next_model(const SegmentView& s) = 0;
  // The algorithm's own state vectors, zero before the first step.
  virtual T* state(int index, const SegmentView& s) = 0;
  // Push-sum weight of this bucket; 1 before the first step.
  virtual double weight() const = 0;
  virtual void set_weight(double weight) = 0;

  // Where the vector for this step's publication in `channel` goes (channels that do not carry the model
  // itself).
  virtual kernels::Destination<T> outgoing(int channel, const SegmentView& s) = 0;
  // Rounds of the schedule that this step takes: up to Algorithm::rounds_per_step(), the same on all workers;
  // 0: workers do not mix in it (kith/optim/trigger.h). A channel that carries the model is then published
  // and gathered all the same, for nobody; the others must be left alone.
  virtual int rounds() const = 0;
  bool mixes() const { return rounds() > 0; }
  // Whether this is the first step of all, before which state is zero.
  virtual bool first() const = 0;
  // Makes the channel's new version visible to the readers of its round, which is the step's k-th.
  virtual void publish(int channel, int k) = 0;
  void publish(int channel) { publish(channel, 0); }
  // The neighbours' vectors of the step's k-th round, of the version that this worker itself published last
  // in the channel. Waits, boundedly.
  virtual const gossip::Gathered& gather(int channel, int k) = 0;
  const gossip::Gathered& gather(int channel) { return gather(channel, 0); }
  // The part of a gathered mix that belongs to a segment. Valid until the next call of mix_of.
  virtual kernels::Mix mix_of(const gossip::Gathered& gathered, int channel, const SegmentView& s) = 0;

  // to = mix - lr * direction(gradient); with no gradient: to = mix.
  void step(const SegmentView& s, const kernels::Mix& mix, const kernels::Destination<T>& to) {
    step(s, mix, s.input.gradient, to);
  }
  virtual void step(const SegmentView& s, const kernels::Mix& mix, const kernels::Gradient& gradient,
                    const kernels::Destination<T>& to) = 0;
  // to = mix
  virtual void mix(const SegmentView& s, const kernels::Mix& mix, const kernels::Destination<T>& to) = 0;
  // Steps and mixes may run in any order, or at once, up to here: none of them writes what another one reads.
  // They have run before those that follow, and before a channel is published. A phase ends with it.
  virtual void run_passes() = 0;
};

// What workers exchange.
//   nothing    everybody trains for itself
//   gradients  everybody's, averaged before the local step: all-reduce
//   models     by the rounds of a schedule, or what the algorithm publishes in their place
enum class Exchange : std::uint8_t { nothing, gradients, models };

struct ChannelSpec {
  std::string name;
  // The channel's version t is the model of step t itself, published at the end of the step before: a whole
  // iteration to travel in. Otherwise the algorithm fills outgoing() and publishes within the steps that mix,
  // once for each of their rounds.
  bool is_model = false;
  // What is published is a model too, or near it: how far two workers' vectors are apart tells how far their
  // models are.
  bool near_model = is_model;
  // The channel carries this vector of the algorithm's state, or before the first step the model. It is
  // published at the end of a step that mixes, and before the first, for the next one that does: it travels
  // while the steps between are computed. -1: none. REQUIRES: one round per step.
  int early_state = -1;
};

// What becomes of an algorithm's state when members leave or join.
//   keep   it is each worker's own, and goes on as it is
//   reset  its sum over the workers meant something, and no longer does: all of it becomes zero, as before
//          the first step
enum class AtViewChange : std::uint8_t { keep, reset };

// The rule that says what is published and how arrivals and gradients become the next model. Stateless:
// everything lives in the bucket. A step runs phase 0 over all buckets, then phase 1, ..., so that a bucket's
// message travels while the others are computed.
template <class T>
class Algorithm {
 public:
  virtual ~Algorithm() = default;

  virtual Exchange exchange() const { return Exchange::models; }
  virtual std::vector<ChannelSpec> channels() const = 0;
  // The names of its state vectors, as checkpoints have them.
  virtual std::vector<std::string> states() const { return {}; }
  virtual AtViewChange at_view_change() const { return AtViewChange::keep; }
  // Of a step with all its rounds; in one with fewer (BucketStep::rounds) the last ones find nothing to do.
  virtual int phases() const { return 1; }
  // Rounds of the schedule that a step with mixing takes, at most.
  virtual int rounds_per_step() const { return 1; }
  virtual bool needs_directed_schedule() const { return false; }
  // True when gradients take part in a mix like models do, so that whatever scales them must be known
  // beforehand (Gradient::factor is not set).
  virtual bool mixes_gradients() const { return false; }
  virtual void run(int phase, BucketStep<T>& bucket) const = 0;
};

// The method of that name; kith/optim/methods.h lists them. InputError for anything else.
template <class T>
std::unique_ptr<Algorithm<T>> make_algorithm(std::string_view name, const MethodOptions& options = {});

std::vector<std::string> algorithm_names();
// InputError as above.
Exchange exchange_of(std::string_view name);

}  // namespace kith::optim
