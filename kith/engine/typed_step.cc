#include "kith/engine/typed_step.h"

#include <algorithm>
#include <utility>

#include "kith/engine/tally.h"

namespace kith::engine {
namespace {

// Whether the mix is what lies at `values` already.
template <class T>
bool is_only(const kernels::Mix& mix, const T* values) {
  if (values == nullptr || mix.sources.size() != 1 || mix.scale != 1) return false;
  const kernels::Source& source = mix.sources.front();
  return source.data == values && source.type == dtype_of<T>() && source.weight == 1 && !source.rounded_to;
}

}  // namespace

template <class T>
TypedStep<T>::TypedStep(const StepParts<T>& parts)
    : self_(parts.self),
      moved_outside_(parts.moved_outside),
      model_(parts.model),
      state_(parts.state),
      channels_(parts.channels),
      specs_(parts.specs),
      local_(parts.local) {}

template <class T>
void TypedStep<T>::begin(const StepContext& context, std::span<const optim::StepInput> inputs,
                         StepReport tally) {
  context_ = &context;
  tally_ = std::move(tally);
  inputs_.assign(inputs.begin(), inputs.end());
  cut_views(nullptr);
}

template <class T>
void TypedStep<T>::cut_views(const gossip::Gathered* gathered) {
  views_.clear();
  view_parts_.clear();
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    const BucketPart& part = model_.parts()[k];
    const std::size_t end = part.first + part.count;
    std::size_t first = part.first;
    do {
      const std::size_t stop = gathered ? std::min(gathered->end_from(first), end) : end;
      optim::StepInput input = inputs_[k];
      const auto* const gradient = static_cast<const std::byte*>(input.gradient.data);
      if (gradient) input.gradient.data = gradient + (first - part.first) * size_of(input.gradient.type);
      views_.push_back({first, stop - first, input});
      view_parts_.push_back(k);
      first = stop;
    } while (first < end);
  }
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
  if (channel_at(0).coded()) return context_->next_mixes;  // for all rounds of the period
  return !graph::reads_of(context_->next, self_).empty() || !graph::readers_of(context_->next, self_).empty();
}

template <class T>
kernels::Destination<T> TypedStep<T>::next_model(const optim::SegmentView& s) {
  if (model_.alternating()) {
    kernels::Destination<T> to = channel_at(0).outgoing(s.first);
    if (model_.has_master()) {
      const BucketPart& part = part_of(s);
      to.encoded_type = model_.plan().type;
      to.encoded = part.parameter + (s.first - part.first) * size_of(to.encoded_type);
    }
    return to;
  }
  kernels::Destination<T> to{home(s), nullptr, {}};
  if (!channels_.empty() && carries_model(0) && next_is_shared()) {
    const bool rounded = channel_at(0).lossy() && !channel_at(0).coded();
    const kernels::Destination<T> wire = channel_at(0).outgoing(s.first);
    to.encoded = rounded ? wire.encoded : wire.values;
    to.encoded_type = rounded ? wire.encoded_type : dtype_of<T>();
    to.draw = wire.draw;
  }
  return to;
}

template <class T>
kernels::Destination<T> TypedStep<T>::outgoing(int channel, const optim::SegmentView& s) {
  return channel_at(channel).outgoing(s.first);
}

template <class T>
void TypedStep<T>::publish(int index, int k) {
  gossip::Channel<T>& channel = channel_at(index);
  const bool is_model = carries_model(index);
  run_passes();
  if (is_model) {
    channel.publish(context_->next, weight(), context_->next_mixes);
  } else {
    const bool early = specs_[static_cast<std::size_t>(index)].early_state >= 0;
    channel.publish(early ? context_->coming : context_->now[static_cast<std::size_t>(k)], weight());
  }
  if (is_model) model_.set_version(channel.published());
  if (context_->measures_updates && k == 0 && specs_[static_cast<std::size_t>(index)].near_model)
    tally_.update_squares += update_squares(channel);
  tally_.bytes_published += channel.message_bytes();
}

template <class T>
double TypedStep<T>::update_squares(const gossip::Channel<T>& channel) const {
  double sum = 0;
  for (const BucketPart& part : model_.parts()) {
    const T* const values = channel.published_values(part.first);
    if (!values) return 0;
    const gossip::SampledVector after{values, dtype_of<T>(), 1, 1};
    sum += gossip::sample_consensus({model_.home(part), dtype_of<T>()}, {&after, 1}, part.count,
                                    channel.published())
               .moved;
  }
  return sum;
}

template <class T>
const gossip::Gathered& TypedStep<T>::gather(int index, int k) {
  gossip::Channel<T>& channel = channel_at(index);
  // Where one's own values are not in the channel, mix_of says per segment where they lie.
  const bool own_elsewhere = carries_model(index) && (channel.lossy() || moved_outside_);
  const void* const own = own_elsewhere ? model_.home(model_.parts().front()) : nullptr;
  const gossip::Gathered& gathered =
      channel.gather(context_->now[static_cast<std::size_t>(k)], own, weight(), context_->deadline);
  note(tally_, gathered.report());
  note_reads(index, gathered.report().read, k == 0);
  cut_views(&gathered);
  return gathered;
}

template <class T>
void TypedStep<T>::note_reads(int index, const std::vector<WorkerId>& peers, bool samples) {
  // What is published within a step has this step's gradient in it.
  const std::int64_t steps = context_->step + (carries_model(index) ? 0 : 1);
  for (const WorkerId peer : peers)
    note(tally_, PeerRead{peer, steps, {}});
  if (!samples || !specs_[static_cast<std::size_t>(index)].near_model) return;
  const gossip::NeighbourSample sample = channel_at(index).sample_neighbours(weight());
  for (const gossip::PeerSample& one : sample.peers)
    note(tally_, PeerRead{one.peer, steps, one.apart});
  tally_.consensus.add(sample.all);
}

template <class T>
kernels::Mix TypedStep<T>::mix_of(const gossip::Gathered& gathered, int index, const optim::SegmentView& s) {
  const bool own_elsewhere = carries_model(index) && !model_.alternating();
  return gathered.mix_from(s.first, scratch_, own_elsewhere ? home(s) : nullptr);
}

template <class T>
void TypedStep<T>::step(const optim::SegmentView& s, const kernels::Mix& mixed,
                        const kernels::Gradient& gradient, const kernels::Destination<T>& to) {
  if (!gradient.data) return mix(s, mixed, to);
  optim::StepInput input = s.input;
  input.gradient = gradient;
  add(local_.pass(to, mixed, input, state_.optimizer(s.first), s.count));
  if (s.first == part_of(s).first) state_.add_step(index_of(s));
}

template <class T>
void TypedStep<T>::mix(const optim::SegmentView& s, const kernels::Mix& mixed,
                       const kernels::Destination<T>& to) {
  kernels::Destination<T> wanted = to;
  // Who is alone in a round and was moved by somebody else has nothing to write but the copy for others.
  if (is_only(mixed, to.values)) wanted.values = nullptr;
  if (wanted.values == nullptr && wanted.encoded == nullptr) return;
  add({wanted, mixed, {}, {}, kernels::MixOnly{}, s.count});
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
