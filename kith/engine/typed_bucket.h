#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kith/engine/bucket.h"
#include "kith/engine/bucket_model.h"
#include "kith/engine/bucket_state.h"
#include "kith/engine/gradient_reduction.h"
#include "kith/engine/typed_step.h"
#include "kith/engine/world_parts.h"
#include "kith/gossip/channel.h"
#include "kith/optim/algorithm.h"

namespace kith::engine {

struct TypedBucketOptions {
  std::string name;  // "model/bucket3"
  BucketPlan plan;
  std::uint64_t digest = 0;
  DType wire = DType::f32;
  std::string codec;  // EngineOptions::codec
  double consensus_step = 0;
  Layout layout = Layout::staged;              // alternating or staged
  const WorldParts* mates = nullptr;           // gradients are averaged with its members; null: they are not
  gossip::DeviceReducers* reducers = nullptr;  // for that; null: through host memory
  bool moved_outside = false;                  // EngineOptions::external_optimizer
  Clock::Duration patience{};
  const graph::Schedule* schedule = nullptr;
  gossip::CommThreads* threads = nullptr;  // for rounds over machines; null when the schedule has none
  gossip::DeviceWork* work = nullptr;      // where the segments lie
};

// A bucket whose arithmetic is in T: a model with its state, the channels of the algorithm, and the averaging
// of gradients where there is one.
template <class T>
class TypedBucket final : public Bucket {
 public:
  TypedBucket(const WorldParts& world, const TypedBucketOptions& options,
              const optim::Algorithm<T>& algorithm, const optim::LocalStep<T>& local,
              std::span<const Segment> segments);

  const std::vector<std::size_t>& indices() const override { return model_.indices(); }
  void begin_step(const StepContext& context, std::span<const SegmentInput> inputs) override;
  int phases() const override { return algorithm_.phases(); }
  void run(int phase) override;
  void end_step(StepReport& report) override;
  void* data(std::size_t segment) const override { return model_.data(segment); }
  std::vector<void*> places(std::size_t segment) const override { return model_.places(segment); }
  void adopt(std::int64_t step, std::span<const Segment> segments) override;
  void share_start(Collectives& collectives, Deadline deadline) override;
  void publish_first(const StepContext& first) override;
  void reduce_gradients(std::span<const SegmentInput> inputs, const kernels::Mark& ready,
                        Deadline deadline) override;
  std::optional<WorkerId> missing() const override { return reduction_->missing(); }
  void use_own_gradients() override { uses_means_ = false; }
  void hand_out_gradients(std::span<const SegmentInput> inputs, std::span<void* const> to,
                          std::vector<bool>& there) override;
  void add_gradients(std::span<const SegmentInput> inputs,
                     std::vector<kernels::Vector>& gradients) const override;
  double average(Collectives& collectives, std::span<void* const> to, Deadline deadline) override;
  double squared_consensus_distance(Collectives& collectives, Deadline deadline) override;
  void state(std::vector<StateSpan>& spans) override;
  void add_memory(MemoryUse& use) const override;

 private:
  // ChannelSpec::early_state, before the first step.
  void publish_early(std::size_t channel, const StepContext& first);
  // The gradient that the step uses of part k: the worker's own, or the mean.
  kernels::Vector gradient_of(std::size_t k, const SegmentInput& input) const;

  const TypedBucketOptions options_;
  const optim::Algorithm<T>& algorithm_;
  const std::vector<optim::ChannelSpec> channel_specs_;
  BucketModel<T> model_;
  BucketState<T> state_;
  std::vector<std::unique_ptr<gossip::Channel<T>>> channels_;
  TypedStep<T> step_;
  std::unique_ptr<GradientReduction<T>> reduction_;  // null where gradients are not averaged
  bool uses_means_ = true;                           // in the step under way, else its inputs' gradients
  bool handed_out_ = false;                          // in the step under way
};

}  // namespace kith::engine
