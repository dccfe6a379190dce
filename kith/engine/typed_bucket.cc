#include "kith/engine/typed_bucket.h"

#include <utility>

#include "kith/base/text.h"
#include "kith/engine/bucket_average.h"

namespace kith::engine {
namespace {

// The worker's own gradient of a part.
kernels::Vector own_gradient(const BucketPart& part, const SegmentInput& input) {
  const auto* const first = static_cast<const std::byte*>(input.gradient);
  return {first ? first + part.from * size_of(input.gradient_type) : nullptr, input.gradient_type,
          part.count};
}

template <class T>
std::unique_ptr<GradientReduction<T>> open_reduction(const TypedBucketOptions& options) {
  if (!options.mates) return nullptr;
  GradientReductionOptions reduction;
  reduction.name = cat(options.name, "/gradient/", options.mates->members.workers.front().value);
  reduction.count = options.plan.count;
  for (const Placed& placed : options.plan.segments)
    reduction.firsts.push_back(placed.first);
  reduction.wire = options.wire == DType::i8 ? dtype_of<T>() : options.wire;  // that one is for models
  reduction.patience = options.patience;
  reduction.device = &options.work->device;
  reduction.reducers = options.reducers;
  return std::make_unique<GradientReduction<T>>(*options.mates, reduction);
}

template <class T>
std::vector<std::unique_ptr<gossip::Channel<T>>> open_channels(const WorldParts& world,
                                                               const TypedBucketOptions& options,
                                                               const std::vector<optim::ChannelSpec>& specs) {
  std::vector<std::unique_ptr<gossip::Channel<T>>> channels;
  for (const optim::ChannelSpec& spec : specs) {
    gossip::ChannelOptions channel;
    channel.name = options.name + "/" + spec.name;
    channel.count = options.plan.count;
    channel.wire = options.wire;
    channel.digest = options.digest;
    channel.patience = options.patience;
    channel.keeps_values = !spec.is_model;
    channel.values_move = spec.is_model && options.moved_outside;
    channel.codec = options.codec;
    channel.consensus_step = options.consensus_step;
    channel.read_later = spec.is_model;
    if (options.codec.empty()) {
      channel.over_machines = options.threads != nullptr;
      channel.threads = options.threads;
      if (options.work->device.host()) channel.least_sum = gossip::GroupReducer<T>::kLeastFused;
    }
    channel.work = options.work;
    channel.trace = world.trace;
    channels.push_back(std::make_unique<gossip::Channel<T>>(*world.transport, world.members,
                                                            *options.schedule, *world.clock, channel));
  }
  return channels;
}

}  // namespace

template <class T>
TypedBucket<T>::TypedBucket(const WorldParts& world, const TypedBucketOptions& options,
                            const optim::Algorithm<T>& algorithm, const optim::LocalStep<T>& local,
                            std::span<const Segment> segments)
    : options_(options),
      algorithm_(algorithm),
      channel_specs_(algorithm.channels()),
      model_(options.plan, options.layout, segments, options.work->device),
      state_(model_, {options.name, local.states(), static_cast<int>(algorithm.states().size())}),
      channels_(open_channels<T>(world, options, channel_specs_)),
      step_({world.rank(), options.moved_outside, model_, state_, channels_, channel_specs_, local}),
      reduction_(open_reduction<T>(options)) {
  if (model_.alternating()) model_.lie_in(*channels_.front());
}

template <class T>
kernels::Vector TypedBucket<T>::gradient_of(std::size_t k, const SegmentInput& input) const {
  const BucketPart& part = model_.parts()[k];
  if (reduction_ && uses_means_ && !handed_out_) return {reduction_->mean(k), dtype_of<T>(), part.count};
  return own_gradient(part, input);
}

// ---- a step

template <class T>
void TypedBucket<T>::begin_step(const StepContext& context, std::span<const SegmentInput> inputs) {
  StepReport tally;
  if (reduction_) {
    tally = reduction_->take_tally();
    tally.waited = {};  // by other threads, beside this one: BackgroundReduction::waited
    if (!uses_means_) tally = {};
    model_.queue().after(reduction_->mark());
  }
  std::vector<optim::StepInput> of_parts;
  for (std::size_t k = 0; k < indices().size(); ++k) {
    const SegmentInput& input = inputs[indices()[k]];
    const kernels::Vector gradient = gradient_of(k, input);
    of_parts.push_back({{context.skip ? nullptr : gradient.data, gradient.type, context.gradient_scale,
                         context.gradient_factor},
                        input.lr,
                        input.decay,
                        state_.steps(k) + 1});
  }
  if (options_.moved_outside) model_.follow_parameters();
  step_.begin(context, of_parts, std::move(tally));
}

template <class T>
void TypedBucket<T>::run(int phase) {
  algorithm_.run(phase, step_);
  step_.run_passes();
  step_.finish();
}

template <class T>
void TypedBucket<T>::end_step(StepReport& report) {
  // In the alternating layout the fused pass has rounded the 16-bit copies already.
  if (!model_.alternating()) model_.copy_out();
  step_.end(report);
  uses_means_ = true;
  handed_out_ = false;
}

// ---- before the first step

template <class T>
void TypedBucket<T>::adopt(std::int64_t step, std::span<const Segment> segments) {
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    if (!channel_specs_[c].is_model) continue;
    channels_[c]->continue_after(static_cast<std::uint64_t>(step));
    channels_[c]->next_slot();
  }
  // A channel that carries the model is one publication ahead: its next version is the model of step `step`.
  model_.set_version(static_cast<std::uint64_t>(step) + 1);
  model_.take(segments);
}

template <class T>
void TypedBucket<T>::share_start(Collectives& collectives, Deadline deadline) {
  engine::share_start(model_, collectives.of<T>(), deadline);
}

template <class T>
void TypedBucket<T>::publish_first(const StepContext& first) {
  state_.take();
  for (const auto& channel : channels_)
    channel->take_replicas();
  model_.copy_out();
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    gossip::Channel<T>& channel = *channels_[c];
    if (!channel_specs_[c].is_model) {
      channel.continue_after(static_cast<std::uint64_t>(first.rounds_before));
      if (channel_specs_[c].early_state >= 0) publish_early(c, first);
      continue;
    }
    for (const BucketPart& part : model_.parts()) {
      if (model_.alternating()) break;
      kernels::Destination<T> to = channel.outgoing(part.first);
      if (to.encoded) to.values = nullptr;
      const kernels::Source model{model_.home(part), dtype_of<T>(), 1};
      model_.kernels().mix(to, {{&model, 1}}, part.count);
    }
    channel.publish(first.now.front(), state_.weight(), first.rounds > 0);
  }
  step_.finish();
}

template <class T>
void TypedBucket<T>::publish_early(std::size_t index, const StepContext& first) {
  gossip::Channel<T>& channel = *channels_[index];
  for (const BucketPart& part : model_.parts()) {
    const kernels::Destination<T> to = channel.outgoing(part.first);
    const T* const from =
        first.step == 0 ? model_.home(part) : state_.algorithm(channel_specs_[index].early_state, part.first);
    const kernels::Source source{from, dtype_of<T>(), 1};
    model_.kernels().mix(to, {{&source, 1}}, part.count);
  }
  channel.publish(first.rounds > 0 ? first.now.front() : first.coming, state_.weight());
}

// ---- gradients

template <class T>
void TypedBucket<T>::reduce_gradients(std::span<const SegmentInput> inputs, const kernels::Mark& ready,
                                      Deadline deadline) {
  std::vector<kernels::Vector> gradients;
  for (std::size_t k = 0; k < indices().size(); ++k)
    gradients.push_back(own_gradient(model_.parts()[k], inputs[indices()[k]]));
  reduction_->reduce(gradients, ready, deadline);
}

template <class T>
void TypedBucket<T>::hand_out_gradients(std::span<const SegmentInput> inputs, std::span<void* const> to,
                                        std::vector<bool>& there) {
  const DType type = model_.plan().type;
  model_.queue().after(reduction_->mark());
  for (std::size_t k = 0; k < indices().size(); ++k) {
    const kernels::Vector from = gradient_of(k, inputs[indices()[k]]);
    if (!from.data) continue;
    const BucketPart& part = model_.parts()[k];
    auto* const out = static_cast<std::byte*>(to[indices()[k]]) + part.from * size_of(type);
    if (out != from.data) model_.kernels().convert(out, type, from.data, from.type, part.count);
    there[indices()[k]] = true;
  }
  handed_out_ = true;
}

template <class T>
void TypedBucket<T>::add_gradients(std::span<const SegmentInput> inputs,
                                   std::vector<kernels::Vector>& gradients) const {
  if (reduction_) model_.queue().after(reduction_->mark());
  for (std::size_t k = 0; k < indices().size(); ++k) {
    const kernels::Vector gradient = gradient_of(k, inputs[indices()[k]]);
    if (gradient.data) gradients.push_back(gradient);
  }
}

// ---- what is rare

template <class T>
double TypedBucket<T>::average(Collectives& collectives, std::span<void* const> to, Deadline deadline) {
  return engine::average(model_, collectives.of<T>(), to, options_.name + ": average", deadline);
}

template <class T>
double TypedBucket<T>::squared_consensus_distance(Collectives& collectives, Deadline deadline) {
  return engine::squared_consensus_distance(model_, collectives.of<T>(), deadline);
}

template <class T>
void TypedBucket<T>::state(std::vector<StateSpan>& spans) {
  state_.spans(spans);
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    if (channels_[c]->coded())
      spans.push_back(
          {cat(options_.name, "/replicas/", channel_specs_[c].name), channels_[c]->replicas(), false, true});
  }
}

template <class T>
void TypedBucket<T>::add_memory(MemoryUse& use) const {
  for (const auto& channel : channels_) {
    use.windows += channel->window_bytes();
    use.staging += channel->staging_bytes();
  }
  use.state += state_.bytes();
  use.staging += model_.master_bytes();
  if (reduction_) reduction_->add_memory(use);
}

template class TypedBucket<float>;
template class TypedBucket<double>;

}  // namespace kith::engine
