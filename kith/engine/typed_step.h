#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kith/engine/bucket.h"
#include "kith/engine/bucket_model.h"
#include "kith/engine/bucket_state.h"
#include "kith/engine/channel.h"
#include "kith/optim/algorithm.h"

namespace kith::engine {

// What a step works on; all of it outlives the step.
template <class T>
struct StepParts {
  Rank self = 0;
  bool moved_outside = false;  // EngineOptions::external_optimizer
  BucketModel<T>& model;
  BucketState<T>& state;
  const std::vector<std::unique_ptr<Channel<T>>>& channels;
  const std::vector<optim::ChannelSpec>& specs;  // parallel to channels
  const optim::LocalStep<T>& local;
};

// A step of one bucket as algorithms see it: collects passes and runs them, gathers and publishes channels.
template <class T>
class TypedStep final : public optim::BucketStep<T> {
 public:
  explicit TypedStep(const StepParts<T>& parts);

  // `inputs`: one per part. `tally`: what has happened for this step already.
  void begin(const StepContext& context, std::span<const optim::StepInput> inputs, StepReport tally);
  // Hands over what the passes so far have read and written.
  void finish();
  // Adds what happened in the step to the report.
  void end(StepReport& report);

  const std::vector<optim::SegmentView>& segments() const override { return views_; }
  const T* model(const optim::SegmentView& s) const override { return model_.home(part_of(s)); }
  kernels::Destination<T> next_model(const optim::SegmentView& s) override;
  T* state(int index, const optim::SegmentView& s) override { return state_.algorithm(index, s.first); }
  double weight() const override { return state_.weight(); }
  void set_weight(double weight) override { state_.set_weight(weight); }
  kernels::Destination<T> outgoing(int channel, const optim::SegmentView& s) override;
  void publish(int channel) override;
  const gossip::Gathered& gather(int channel) override;
  kernels::Mix mix_of(const gossip::Gathered& gathered, int channel, const optim::SegmentView& s) override;
  void step(const optim::SegmentView& s, const kernels::Mix& mix, const kernels::Gradient& gradient,
            const kernels::Destination<T>& to) override;
  void mix(const optim::SegmentView& s, const kernels::Mix& mix, const kernels::Destination<T>& to) override;
  void run_passes() override;

 private:
  std::size_t index_of(const optim::SegmentView& s) const {
    return static_cast<std::size_t>(&s - views_.data());
  }
  const BucketPart& part_of(const optim::SegmentView& s) const { return model_.parts()[index_of(s)]; }
  Channel<T>& channel_at(int index) const { return *channels_[static_cast<std::size_t>(index)]; }
  bool carries_model(int channel) const { return specs_[static_cast<std::size_t>(channel)].is_model; }
  // Whether the model that this step makes meets others in the next round: if not, nobody reads its copy.
  bool next_is_shared() const;
  void add(kernels::Pass<T> pass);

  const Rank self_;
  const bool moved_outside_;
  BucketModel<T>& model_;
  BucketState<T>& state_;
  const std::vector<std::unique_ptr<Channel<T>>>& channels_;
  const std::vector<optim::ChannelSpec>& specs_;
  const optim::LocalStep<T>& local_;
  std::vector<optim::SegmentView> views_;  // parallel to the model's parts
  std::vector<kernels::Source> scratch_;
  std::vector<kernels::Pass<T>> passes_;                    // not yet run
  std::vector<std::vector<kernels::Source>> pass_sources_;  // theirs
  const StepContext* context_ = nullptr;                    // during a step
  StepReport tally_;                                        // of the step in progress
};

}  // namespace kith::engine
