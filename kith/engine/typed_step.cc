#include "kith/engine/typed_step.h"

#include <utility>

#include "kith/engine/tally.h"

namespace kith::engine {

template <class T>
TypedStep<T>::TypedStep(const StepParts<T>& parts)
    : self_(parts.self),
      moved_outside_(parts.moved_outside),
      model_(parts.model),
      state_(parts.state),
      channels_(parts.channels),
      specs_(parts.specs),
      local_(parts.local) {
  for (const BucketPart& part : model_.parts())
    views_.push_back({part.first, part.count, {}});
}

template <class T>
void TypedStep<T>::begin(const StepContext& context, std::span<const optim::StepInput> inputs,
                         StepReport tally) {
  context_ = &context;
  tally_ = std::move(tally);
  for (std::size_t k = 0; k < views_.size(); ++k)
    views_[k].input = inputs[k];
}

template <class T>
void TypedStep<T>::finish() {
  if (channels_.empty()) return;
  const kernels::Mark mark = model_.queue().mark();
  for (const auto& channel : channels_)
    channel->finish(mark);
}

template <class T>
void TypedStep<T>::end(StepReport& report) {
  note(report, tally_);
  context_ = nullptr;
}

template <class T>
bool TypedStep<T>::next_is_shared() const {
  return !graph::reads_of(context_->next, self_).empty() || !graph::readers_of(context_->next, self_).empty();
}

template <class T>
kernels::Destination<T> TypedStep<T>::next_model(const optim::SegmentView& s) {
  const BucketPart& part = part_of(s);
  if (model_.alternating()) {
    kernels::Destination<T> to = channel_at(0).outgoing(part.first);
    if (model_.has_master()) {
      to.encoded = part.parameter;
      to.encoded_type = model_.plan().type;
    }
    return to;
  }
  kernels::Destination<T> to{model_.home(part), nullptr, {}};
  if (!channels_.empty() && carries_model(0) && channel_at(0).lossy() && next_is_shared()) {
    const kernels::Destination<T> wire = channel_at(0).outgoing(part.first);
    to.encoded = wire.encoded;
    to.encoded_type = wire.encoded_type;
  }
  return to;
}

template <class T>
kernels::Destination<T> TypedStep<T>::outgoing(int channel, const optim::SegmentView& s) {
  return channel_at(channel).outgoing(s.first);
}

template <class T>
void TypedStep<T>::publish(int index) {
  Channel<T>& channel = channel_at(index);
  const bool is_model = carries_model(index);
  run_passes();
  if (is_model && !model_.alternating() && !channel.lossy() && next_is_shared()) {
    T* const slot = channel.outgoing(0).values;
    for (const BucketPart& part : model_.parts())
      model_.queue().copy(slot + part.first, model_.home(part), part.count * sizeof(T));
  }
  channel.publish(is_model ? context_->next : context_->now, weight());
  if (is_model) model_.set_version(channel.published());
  tally_.bytes_published += channel.message_bytes();
}

template <class T>
const gossip::Gathered& TypedStep<T>::gather(int index) {
  Channel<T>& channel = channel_at(index);
  // Where one's own values are not in the channel, mix_of says per segment where they lie.
  const bool own_elsewhere = carries_model(index) && (channel.lossy() || moved_outside_);
  const void* const own = own_elsewhere ? model_.home(model_.parts().front()) : nullptr;
  const gossip::Gathered& gathered = channel.gather(context_->now, own, weight());
  note(tally_, gathered.report());
  return gathered;
}

template <class T>
kernels::Mix TypedStep<T>::mix_of(const gossip::Gathered& gathered, int index, const optim::SegmentView& s) {
  const bool own_elsewhere = carries_model(index) && !model_.alternating();
  return gathered.mix_from(s.first, scratch_, own_elsewhere ? model_.home(part_of(s)) : nullptr);
}

template <class T>
void TypedStep<T>::step(const optim::SegmentView& s, const kernels::Mix& mixed,
                        const kernels::Gradient& gradient, const kernels::Destination<T>& to) {
  if (!gradient.data) return mix(s, mixed, to);
  optim::StepInput input = s.input;
  input.gradient = gradient;
  add(local_.pass(to, mixed, input, state_.optimizer(s.first), s.count));
  state_.add_step(index_of(s));
}

template <class T>
void TypedStep<T>::mix(const optim::SegmentView& s, const kernels::Mix& mixed,
                       const kernels::Destination<T>& to) {
  add({to, mixed, {}, {}, kernels::MixOnly{}, s.count});
}

template <class T>
void TypedStep<T>::add(kernels::Pass<T> pass) {
  if (passes_.size() == pass_sources_.size()) pass_sources_.emplace_back();
  std::vector<kernels::Source>& sources = pass_sources_[passes_.size()];
  sources.assign(pass.mix.sources.begin(), pass.mix.sources.end());
  pass.mix.sources = sources;
  passes_.push_back(pass);
}

template <class T>
void TypedStep<T>::run_passes() {
  if (!passes_.empty()) model_.kernels().run(passes_);
  passes_.clear();
}

template class TypedStep<float>;
template class TypedStep<double>;

}  // namespace kith::engine
