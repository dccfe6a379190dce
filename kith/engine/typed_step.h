#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kith/engine/bucket.h"
#include "kith/engine/bucket_model.h"
#include "kith/engine/bucket_state.h"
#include "kith/gossip/channel.h"
#include "kith/optim/algorithm.h"

namespace kith::engine {

// What a step works on; all of it outlives the step.
template <class T>
struct StepParts {
  Rank self = 0;
  bool moved_outside = false;  // EngineOptions::external_optimizer
  BucketModel<T>& model;
  BucketState<T>& state;
  const std::vector<std::unique_ptr<gossip::Channel<T>>>& channels;
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
  const T* model(const optim::SegmentView& s) const override { return home(s); }
  kernels::Destination<T> next_model(const optim::SegmentView& s) override;
  T* state(int index, const optim::SegmentView& s) override { return state_.algorithm(index, s.first); }
  double weight() const override { return state_.weight(); }
  void set_weight(double weight) override { state_.set_weight(weight); }
  kernels::Destination<T> outgoing(int channel, const optim::SegmentView& s) override;
  int rounds() const override { return context_->rounds; }
  bool first() const override { return context_->step == 0; }
  void publish(int channel, int k) override;
  const gossip::Gathered& gather(int channel, int k) override;
  kernels::Mix mix_of(const gossip::Gathered& gathered, int channel, const optim::SegmentView& s) override;
  void step(const optim::SegmentView& s, const kernels::Mix& mix, const kernels::Gradient& gradient,
            const kernels::Destination<T>& to) override;
  void mix(const optim::SegmentView& s, const kernels::Mix& mix, const kernels::Destination<T>& to) override;
  void run_passes() override;

 private:
  std::size_t index_of(const optim::SegmentView& s) const {
    return view_parts_[static_cast<std::size_t>(&s - views_.data())];
  }
  const BucketPart& part_of(const optim::SegmentView& s) const { return model_.parts()[index_of(s)]; }
  T* home(const optim::SegmentView& s) const {
    const BucketPart& part = part_of(s);
    return model_.home(part) + (s.first - part.first);
  }
  // One view for each part, or more where the part lies in several shards of what was gathered.
  void cut_views(const gossip::Gathered* gathered);
  gossip::Channel<T>& channel_at(int index) const { return *channels_[static_cast<std::size_t>(index)]; }
  // Whom the step has read in a channel, and with `samples` how far from them this worker is.
  void note_reads(int channel, const std::vector<WorkerId>& peers, bool samples);
  bool carries_model(int channel) const { return specs_[static_cast<std::size_t>(channel)].is_model; }
  // Whether the model that this step makes meets others in the next round: if not, nobody reads its copy.
  bool next_is_shared() const;
  void add(kernels::Pass<T> pass);
  // How far what was just published in a channel lies from the model.
  double update_squares(const gossip::Channel<T>& channel) const;

  const Rank self_;
  const bool moved_outside_;
  BucketModel<T>& model_;
  BucketState<T>& state_;
  const std::vector<std::unique_ptr<gossip::Channel<T>>>& channels_;
  const std::vector<optim::ChannelSpec>& specs_;
  const optim::LocalStep<T>& local_;
  std::vector<optim::StepInput> inputs_;  // parallel to the model's parts
  std::vector<optim::SegmentView> views_;
  std::vector<std::size_t> view_parts_;  // parallel to views_: the part that each lies in
  std::vector<kernels::Source> scratch_;
  std::vector<kernels::Pass<T>> passes_;                    // not yet run
  std::vector<std::vector<kernels::Source>> pass_sources_;  // theirs
  const StepContext* context_ = nullptr;                    // during a step
  StepReport tally_;                                        // of the step in progress
};

}  // namespace kith::engine
