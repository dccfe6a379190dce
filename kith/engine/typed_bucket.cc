#include "kith/engine/typed_bucket.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/engine/tally.h"

namespace kith::engine {
namespace {

template <class T>
gossip::Collective<T>& of(Collectives& collectives) {
  if constexpr (std::is_same_v<T, float>) {
    return *collectives.f32;
  } else {
    return *collectives.f64;
  }
}

void require_everybody(const gossip::RoundReport& report, std::string_view what) {
  if (report.complete()) return;
  const WorkerId missing = report.lost.empty() ? report.late.front() : report.lost.front();
  throw Error(cat(missing, report.lost.empty() ? " did not come" : " is gone"), what,
              "look at that worker's log");
}

}  // namespace

template <class T>
TypedBucket<T>::TypedBucket(const World& world, const TypedBucketOptions& options,
                            const optim::Algorithm<T>& algorithm, const optim::LocalStep<T>& local,
                            std::span<const Segment> segments)
    : world_(world),
      options_(options),
      algorithm_(algorithm),
      local_(local),
      kernels_(kernels::make_kernels<T>(options.work->device.compute())),
      channel_specs_(algorithm.channels()) {
  const std::size_t count = options.plan.count;
  for (const Placed& placed : options.plan.segments) {
    const Segment& segment = segments[placed.segment];
    indices_.push_back(placed.segment);
    auto* const parameter = static_cast<std::byte*>(segment.data) + placed.from * size_of(segment.type);
    parts_.push_back({placed.first, placed.from, placed.count, parameter});
    views_.push_back({placed.first, placed.count, {}});
  }
  steps_.resize(parts_.size());
  for (const optim::ChannelSpec& spec : channel_specs_) {
    ChannelOptions channel;
    channel.name = options.name + "/" + spec.name;
    channel.count = count;
    channel.wire = options.wire;
    channel.digest = options.digest;
    channel.patience = options.patience;
    channel.keeps_values = !spec.is_model;
    channel.values_move = spec.is_model && options.moved_outside;
    channel.schedule = options.schedule;
    channel.threads = options.threads;
    channel.work = options.work;
    channels_.push_back(std::make_unique<Channel<T>>(world, channel));
  }
  if (!alternating() && has_master()) master_ = device().allocate(count * sizeof(T));
  for (int k = 0; k < local.states() + algorithm.states(); ++k)
    states_.push_back(device().allocate(count * sizeof(T)));
  if (options.averages_gradients) open_reduction();
}

template <class T>
void TypedBucket<T>::open_reduction() {
  GradientReductionOptions reduction;
  reduction.name = options_.name + "/gradient";
  reduction.count = options_.plan.count;
  for (const Part& part : parts_)
    reduction.firsts.push_back(part.first);
  reduction.wire = options_.wire;
  reduction.patience = options_.patience;
  reduction.device = &device();
  reduction.reducers = options_.reducers;
  reduction_ = std::make_unique<GradientReduction<T>>(world_, reduction);
}

template <class T>
T* TypedBucket<T>::home(const Part& part) const {
  if (alternating()) return channels_[0]->slot(model_version_) + part.first;
  if (has_master()) return master_.as<T>() + part.first;
  return reinterpret_cast<T*>(part.parameter);
}

template <class T>
const void* TypedBucket<T>::gradient_of(const Part& part, const SegmentInput& input) {
  if (!input.gradient) return nullptr;
  return static_cast<const std::byte*>(input.gradient) + part.from * size_of(input.gradient_type);
}

template <class T>
void* TypedBucket<T>::data(std::size_t segment) const {
  const auto at =
      static_cast<std::size_t>(std::find(indices_.begin(), indices_.end(), segment) - indices_.begin());
  const Part& part = parts_[at];
  return has_master() ? static_cast<void*>(part.parameter) : home(part);
}

template <class T>
std::vector<void*> TypedBucket<T>::places(std::size_t segment) const {
  const auto at =
      static_cast<std::size_t>(std::find(indices_.begin(), indices_.end(), segment) - indices_.begin());
  const Part& part = parts_[at];
  if (!alternating() || has_master()) return {part.parameter};
  return {channels_[0]->slot(0) + part.first, channels_[0]->slot(1) + part.first};
}

// ---- a step

template <class T>
void TypedBucket<T>::begin_step(const StepContext& context, std::span<const SegmentInput> inputs) {
  context_ = &context;
  tally_ = {};
  if (reduction_) {
    tally_ = reduction_->take_tally();
    queue().after(reduction_->mark());
  }
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    const SegmentInput& input = inputs[indices_[k]];
    optim::StepInput& view = views_[k].input;
    view.gradient = {gradient_of(parts_[k], input), input.gradient_type, context.gradient_scale,
                     context.gradient_factor};
    if (reads_means()) {
      view.gradient.data = reduction_->mean(k);
      view.gradient.type = dtype_of<T>();
    }
    if (context.skip) view.gradient.data = nullptr;
    view.lr = input.lr;
    view.decay = input.decay;
    view.step = steps_[k] + 1;
  }
  if (options_.moved_outside && has_master()) copy_in();
}

template <class T>
void TypedBucket<T>::run(int phase) {
  algorithm_.run(phase, *this);
  run_passes();
  finish();
}

template <class T>
void TypedBucket<T>::finish() {
  if (channels_.empty()) return;
  const kernels::Mark mark = queue().mark();
  for (const auto& channel : channels_)
    channel->finish(mark);
}

template <class T>
void TypedBucket<T>::add(kernels::Pass<T> pass) {
  if (passes_.size() == pass_sources_.size()) pass_sources_.emplace_back();
  std::vector<kernels::Source>& sources = pass_sources_[passes_.size()];
  sources.assign(pass.mix.sources.begin(), pass.mix.sources.end());
  pass.mix.sources = sources;
  passes_.push_back(pass);
}

template <class T>
void TypedBucket<T>::run_passes() {
  if (!passes_.empty()) kernels_->run(passes_);
  passes_.clear();
}

template <class T>
void TypedBucket<T>::end_step(StepReport& report) {
  // In the alternating layout the fused pass has rounded the 16-bit copies already.
  if (has_master() && !alternating()) copy_out();
  report.waited += tally_.waited;
  report.bytes_read += tally_.bytes_read;
  report.bytes_published += tally_.bytes_published;
  report.missing_weight = std::max(report.missing_weight, tally_.missing_weight);
  report.late.insert(report.late.end(), tally_.late.begin(), tally_.late.end());
  report.lost.insert(report.lost.end(), tally_.lost.begin(), tally_.lost.end());
  context_ = nullptr;
  means_handed_out_ = false;
}

// A parameter was its master rounded; the master moves by as much as the parameter did.
template <class T>
void TypedBucket<T>::copy_in() {
  for (const Part& part : parts_) {
    const std::array<kernels::Source, 3> sources{
        kernels::Source{home(part), dtype_of<T>(), 1},
        kernels::Source{home(part), dtype_of<T>(), -1, nullptr, options_.plan.type},
        kernels::Source{part.parameter, options_.plan.type, 1}};
    kernels_->mix({home(part), nullptr, {}}, {sources, 1}, part.count);
  }
}

template <class T>
void TypedBucket<T>::copy_out() {
  for (const Part& part : parts_) {
    kernels_->convert(part.parameter, options_.plan.type, home(part), dtype_of<T>(), part.count);
  }
}

// ---- what algorithms see

template <class T>
bool TypedBucket<T>::next_is_shared() const {
  return !graph::reads_of(context_->next, world_.rank()).empty() ||
         !graph::readers_of(context_->next, world_.rank()).empty();
}

template <class T>
kernels::Destination<T> TypedBucket<T>::next_model(const optim::SegmentView& s) {
  const Part& part = part_of(s);
  if (alternating()) {
    kernels::Destination<T> to = channels_[0]->outgoing(part.first);
    if (has_master()) {
      to.encoded = part.parameter;
      to.encoded_type = options_.plan.type;
    }
    return to;
  }
  kernels::Destination<T> to{home(part), nullptr, {}};
  if (!channels_.empty() && carries_model(0) && channels_[0]->lossy() && next_is_shared()) {
    const kernels::Destination<T> wire = channels_[0]->outgoing(part.first);
    to.encoded = wire.encoded;
    to.encoded_type = wire.encoded_type;
  }
  return to;
}

template <class T>
T* TypedBucket<T>::state(int index, const optim::SegmentView& s) {
  return states_[static_cast<std::size_t>(local_.states() + index)].template as<T>() + s.first;
}

template <class T>
kernels::Destination<T> TypedBucket<T>::outgoing(int channel, const optim::SegmentView& s) {
  return channels_[static_cast<std::size_t>(channel)]->outgoing(s.first);
}

template <class T>
void TypedBucket<T>::publish(int index) {
  Channel<T>& channel = *channels_[static_cast<std::size_t>(index)];
  const bool is_model = carries_model(index);
  run_passes();
  if (is_model && !alternating() && !channel.lossy() && next_is_shared()) {
    T* const slot = channel.outgoing(0).values;
    for (const Part& part : parts_)
      queue().copy(slot + part.first, home(part), part.count * sizeof(T));
  }
  channel.publish(is_model ? context_->next : context_->now, weight_);
  if (is_model) model_version_ = channel.published();
  tally_.bytes_published += channel.message_bytes();
}

template <class T>
const gossip::Gathered& TypedBucket<T>::gather(int index) {
  Channel<T>& channel = *channels_[static_cast<std::size_t>(index)];
  // Where one's own values are not in the channel, mix_of says per segment where they lie.
  const bool own_elsewhere = carries_model(index) && (channel.lossy() || options_.moved_outside);
  const void* const own = own_elsewhere ? home(parts_.front()) : nullptr;
  const gossip::Gathered& gathered = channel.gather(context_->now, own, weight_);
  note(tally_, gathered.report());
  return gathered;
}

template <class T>
kernels::Mix TypedBucket<T>::mix_of(const gossip::Gathered& gathered, int index,
                                    const optim::SegmentView& s) {
  const bool own_elsewhere = carries_model(index) && !alternating();
  return gathered.mix_from(s.first, scratch_, own_elsewhere ? home(part_of(s)) : nullptr);
}

template <class T>
void TypedBucket<T>::step(const optim::SegmentView& s, const kernels::Mix& mixed,
                          const kernels::Gradient& gradient, const kernels::Destination<T>& to) {
  if (!gradient.data) return mix(s, mixed, to);
  std::array<T*, 3> state{};
  for (std::size_t k = 0; k < static_cast<std::size_t>(local_.states()); ++k)
    state[k] = states_[k].template as<T>() + s.first;
  optim::StepInput input = s.input;
  input.gradient = gradient;
  add(local_.pass(to, mixed, input, state, s.count));
  ++steps_[static_cast<std::size_t>(&s - views_.data())];
}

template <class T>
void TypedBucket<T>::mix(const optim::SegmentView& s, const kernels::Mix& mixed,
                         const kernels::Destination<T>& to) {
  add({to, mixed, {}, {}, kernels::MixOnly{}, s.count});
}

// ---- before the first step

template <class T>
void TypedBucket<T>::adopt(std::int64_t step, std::span<const Segment> segments) {
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    channels_[c]->continue_after(static_cast<std::uint64_t>(step));
    if (carries_model(static_cast<int>(c))) channels_[c]->next_slot();
  }
  // A channel that carries the model is one publication ahead: its next version is the model of step `step`.
  model_version_ = static_cast<std::uint64_t>(step) + 1;
  if (!alternating() && !has_master()) return;
  for (const Part& part : parts_) {
    const std::size_t k = static_cast<std::size_t>(&part - parts_.data());
    const auto* const given = static_cast<const std::byte*>(segments[indices_[k]].data);
    kernels_->convert(home(part), dtype_of<T>(), given + part.from * size_of(options_.plan.type),
                      options_.plan.type, part.count);
  }
}

template <class T>
void TypedBucket<T>::publish_first(const StepContext& first) {
  take_state();
  if (has_master()) copy_out();
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    if (!carries_model(static_cast<int>(c))) continue;
    Channel<T>& channel = *channels_[c];
    for (const Part& part : parts_) {
      if (alternating()) break;
      const kernels::Destination<T> to = channel.outgoing(part.first);
      void* const out = channel.lossy() ? to.encoded : to.values;
      kernels_->convert(out, options_.wire, home(part), dtype_of<T>(), part.count);
    }
    channel.publish(first.now, weight_);
  }
  finish();
}

template <class T>
void TypedBucket<T>::for_chunks(std::size_t most,
                                const std::function<void(std::size_t, std::size_t)>& visit) const {
  for (std::size_t first = 0; first < options_.plan.count; first += most) {
    visit(first, std::min(most, options_.plan.count - first));
  }
}

template <class T>
void TypedBucket<T>::for_pieces(
    std::size_t first, std::size_t count,
    const std::function<void(std::size_t, std::size_t, std::size_t)>& visit) const {
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    const std::size_t low = std::max(first, parts_[k].first);
    const std::size_t high = std::min(first + count, parts_[k].first + parts_[k].count);
    if (low < high) visit(k, low - parts_[k].first, high - low);
  }
}

template <class T>
std::vector<T> TypedBucket<T>::model_piece(std::size_t first, std::size_t count) const {
  std::vector<T> piece(count);
  for_pieces(first, count, [&](std::size_t k, std::size_t from, std::size_t n) {
    queue().copy_now(piece.data() + (parts_[k].first + from - first), home(parts_[k]) + from, n * sizeof(T));
  });
  return piece;
}

template <class T>
void TypedBucket<T>::set_model_piece(std::size_t first, const std::vector<T>& piece) {
  for_pieces(first, piece.size(), [&](std::size_t k, std::size_t from, std::size_t n) {
    queue().copy_now(home(parts_[k]) + from, piece.data() + (parts_[k].first + from - first), n * sizeof(T));
  });
}

template <class T>
void TypedBucket<T>::share_start(Collectives& collectives, Deadline deadline) {
  gossip::Collective<T>& all = of<T>(collectives);
  for_chunks(all.capacity(), [&](std::size_t first, std::size_t count) {
    std::vector<T> piece = model_piece(first, count);
    all.broadcast(piece, 0, deadline);
    set_model_piece(first, piece);
  });
}

// ---- all-reduce

template <class T>
void TypedBucket<T>::reduce_gradients(std::span<const SegmentInput> inputs, const kernels::Mark& ready,
                                      Deadline deadline) {
  std::vector<typename GradientReduction<T>::Part> parts;
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    const SegmentInput& input = inputs[indices_[k]];
    parts.push_back({gradient_of(parts_[k], input), input.gradient_type, parts_[k].count});
  }
  reduction_->reduce(parts, ready, deadline);
}

template <class T>
void TypedBucket<T>::hand_out_means(std::span<void* const> to, std::vector<bool>& there) {
  queue().after(reduction_->mark());
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    const T* const mean = reduction_->mean(k);
    if (!mean) continue;
    auto* const out = static_cast<std::byte*>(to[indices_[k]]) + parts_[k].from * size_of(options_.plan.type);
    kernels_->convert(out, options_.plan.type, mean, dtype_of<T>(), parts_[k].count);
    there[indices_[k]] = true;
  }
  means_handed_out_ = true;
}

template <class T>
void TypedBucket<T>::add_gradients(std::span<const SegmentInput> inputs,
                                   std::vector<kernels::Vector>& gradients) const {
  if (reduction_) queue().after(reduction_->mark());
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    const SegmentInput& input = inputs[indices_[k]];
    const kernels::Vector gradient =
        reads_means() ? kernels::Vector{reduction_->mean(k), dtype_of<T>(), parts_[k].count}
                      : kernels::Vector{gradient_of(parts_[k], input), input.gradient_type, parts_[k].count};
    if (gradient.data) gradients.push_back(gradient);
  }
}

// ---- collective operations

template <class T>
void TypedBucket<T>::average(Collectives& collectives, std::span<void* const> to, Deadline deadline) {
  gossip::Collective<T>& all = of<T>(collectives);
  kernels::Buffer scratch;
  if (!device().host())
    scratch = device().allocate(std::min(all.capacity(), options_.plan.count) * sizeof(T));
  for_chunks(all.capacity(), [&](std::size_t first, std::size_t count) {
    std::vector<T> piece = model_piece(first, count);
    require_everybody(all.mean(piece, deadline), options_.name + ": average");
    const T* mean = piece.data();
    if (!scratch.empty()) {
      queue().copy_now(scratch.data(), piece.data(), count * sizeof(T));
      mean = scratch.as<T>();
    }
    for_pieces(first, count, [&](std::size_t k, std::size_t from, std::size_t n) {
      auto* const out =
          static_cast<std::byte*>(to[indices_[k]]) + (parts_[k].from + from) * size_of(options_.plan.type);
      kernels_->convert(out, options_.plan.type, mean + (parts_[k].first + from - first), dtype_of<T>(), n);
    });
    kernels::wait(queue().mark());  // the piece goes
  });
}

template <class T>
double TypedBucket<T>::squared_consensus_distance(Collectives& collectives, Deadline deadline) {
  gossip::Collective<T>& all = of<T>(collectives);
  double sum = 0;
  for_chunks(all.capacity(), [&](std::size_t first, std::size_t count) {
    const std::vector<T> piece = model_piece(first, count);
    sum += all.squared_consensus_distance(piece, deadline);
  });
  return sum;
}

// ---- state

template <class T>
std::vector<typename TypedBucket<T>::StatePlace> TypedBucket<T>::state_places() {
  std::vector<StatePlace> places;
  const auto add_place = [&](const std::string& name, void* data, std::size_t bytes, bool on_device) {
    places.push_back({options_.name + "/" + name, static_cast<std::byte*>(data), bytes, on_device});
  };
  for (std::size_t k = 0; k < parts_.size(); ++k)
    add_place(cat("model", k), home(parts_[k]), parts_[k].count * sizeof(T), true);
  for (std::size_t k = 0; k < states_.size(); ++k)
    add_place(cat("state", k), states_[k].data(), states_[k].bytes(), true);
  add_place("steps", steps_.data(), steps_.size() * sizeof(steps_[0]), false);
  add_place("weight", &weight_, sizeof(weight_), false);
  return places;
}

template <class T>
void TypedBucket<T>::state(std::vector<StateSpan>& spans) {
  const std::vector<StatePlace> places = state_places();
  if (!device().host()) saved_.resize(places.size());
  for (std::size_t k = 0; k < places.size(); ++k) {
    const auto& [name, data, bytes, on_device] = places[k];
    std::byte* here = data;
    if (on_device && !device().host()) {
      saved_[k].resize(bytes);
      here = saved_[k].data();
      queue().copy_now(here, data, bytes);
    }
    spans.push_back({name, {here, bytes}});
  }
}

// What state() gave out may have been filled since.
template <class T>
void TypedBucket<T>::take_state() {
  const std::vector<StatePlace> places = state_places();
  for (std::size_t k = 0; k < saved_.size(); ++k)
    queue().copy_now(places[k].data, saved_[k].data(), saved_[k].size());
  saved_.clear();
}

template <class T>
void TypedBucket<T>::add_memory(MemoryUse& use) const {
  for (const auto& channel : channels_) {
    use.windows += channel->window_bytes();
    use.staging += channel->staging_bytes();
  }
  for (const auto& state : states_)
    use.state += state.bytes();
  use.staging += master_.bytes();
  if (reduction_) reduction_->add_memory(use);
}

template class TypedBucket<float>;
template class TypedBucket<double>;

}  // namespace kith::engine
