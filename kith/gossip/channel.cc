#include "kith/gossip/channel.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/comm/take_slot.h"
#include "kith/gossip/channel_parts.h"

namespace kith::gossip {

template <class T>
Channel<T>::Channel(comm::Transport& transport, const Members& members, const graph::Schedule& schedule,
                    const Clock& clock, const ChannelOptions& options)
    : transport_(transport),
      members_(members),
      schedule_(schedule),
      clock_(clock),
      options_(options),
      work_(*options.work),
      self_(members.rank_of(transport.self())),
      machines_(machines_of(transport, members)),
      period_(whole_period(schedule, self_)),
      peers_(neighbours_of(period_, members, self_)),
      replicas_(make_replicas<T>(transport, members, period_, options)),
      window_(open_window(transport, peers_, options,
                          coded() ? replicas_->largest_message() : bytes_of(options.wire, options.count),
                          clock.now() + options.patience)),
      copies_(!work_.device.host() && !lies_on_device(transport, options)),
      across_(
          open_across<T>(transport, peers_, schedule, options, machines_, clock.now() + options.patience)),
      reducer_(open_reducer<T>(transport, peers_, schedule, options, clock.now() + options.patience)) {
  KITH_CHECK_EQ(options.count % block_of(options.wire), std::size_t{0}, "whole blocks of the wire");
  if (copies_) {
    for (kernels::Buffer& slot : slots_)
      slot = work_.device.allocate(largest_message());
  }
  if (across_ && !work_.device.host()) {
    mean_ = work_.device.allocate_pinned(options.count * sizeof(T));
    mean_here_ = work_.device.allocate(options.count * sizeof(T));
  }
  if (coded() || (lossy() && options.keeps_values))
    values_ = work_.device.allocate(options.count * sizeof(T));
  if (coded() && !work_.device.host() && !copies_)
    prefixes_ = work_.device.allocate_pinned(period_.reads.size() * Replicas<T>::kPrefixBytes);
}

template <class T>
std::size_t Channel<T>::staging_bytes() const {
  std::size_t bytes = values_.bytes() + (coded() ? replicas_->state_bytes() : 0) + mean_.bytes() +
                      mean_here_.bytes() + (across_ ? across_->memory_bytes() : 0) +
                      (reducer_ ? reducer_->window_bytes() : 0);
  for (const kernels::Buffer& slot : slots_)
    bytes += slot.bytes();
  for (const kernels::Buffer& copy : inbox_)
    bytes += copy.bytes();
  return bytes;
}

template <class T>
std::byte* Channel<T>::slot_bytes(std::uint64_t number) const {
  return copies_ ? slots_[number % slots_.size()].data() : window_->slot(version(number)).data();
}

template <class T>
T* Channel<T>::slot(std::uint64_t number) const {
  KITH_CHECK(!lossy(), "a lossy slot holds no values");
  return reinterpret_cast<T*>(slot_bytes(number));
}

template <class T>
std::byte* Channel<T>::next_slot() {
  const Version next = version(published_ + 1);
  if (!next_is_open_) {
    if (publishing_ > 0) work_.completions.drain();
    comm::take_slot(*window_, next, clock_.now() + options_.patience, cat(transport_.self()));
    next_is_open_ = true;
  }
  return slot_bytes(published_ + 1);
}

template <class T>
kernels::Destination<T> Channel<T>::outgoing(std::size_t first) {
  if (coded()) return {values_.as<T>() + first, nullptr, {}};
  std::byte* const slot = next_slot();
  if (!lossy()) return {reinterpret_cast<T*>(slot) + first, nullptr, {}};
  T* const values = values_.empty() ? nullptr : values_.as<T>() + first;
  return {values, slot + bytes_of(options_.wire, first), options_.wire, draw_of(published_ + 1) + first};
}

template <class T>
std::uint64_t Channel<T>::draw_of(std::uint64_t number) const {
  return hash_words(options_.digest, number);
}

template <class T>
void Channel<T>::publish(const graph::WorkerRound& round, double weight, bool exchanges) {
  if (schedule_.directed()) kept_ = kept_share(transport_, members_, round, self_);
  next_slot();
  if (coded()) encode(exchanges);
  ++published_;
  next_is_open_ = false;
  publication_ = {published_, coded() && exchanges ? period_ : round, weight, message_bytes()};
}

template <class T>
void Channel<T>::finish(const kernels::Mark& mark) {
  if (!publication_ && !gathered_) return;
  if (gathered_) inbox_read_ = mark;
  const int releases = gathered_ ? 1 : 0, publishes = publication_ ? 1 : 0;
  releasing_ += releases;
  publishing_ += publishes;
  // Jobs are copied, arrivals are not.
  const auto read = std::make_shared<std::optional<Gathered>>(std::exchange(gathered_, std::nullopt));
  work_.completions.submit(mark,
                           [this, read, releases, publishes,
                            publication = std::exchange(publication_, std::nullopt)](kernels::Queue& queue) {
                             read->reset();  // before threads that average begin to use the same windows
                             releasing_ -= releases;
                             if (publication) make_visible(*publication, queue);
                             publishing_ -= publishes;
                           });
}

template <class T>
void Channel<T>::make_visible(const Publication& publication, kernels::Queue& queue) {
  const auto& [number, round, weight, bytes] = publication;
  std::byte* const slot = window_->slot(version(number)).data();
  if (copies_) {
    queue.copy(slot, slot_bytes(number), bytes);
    kernels::wait(queue.mark());
  }
  comm::PublishOptions options{.bytes = bytes, .weight = weight};
  address(options, round, members_, self_, machines_, options_.count, options_.wire);
  if (options_.trace) options.time = clock_.now();
  window_->publish(version(number), options);
  if (options_.trace) trace_publication(number, options);
  if (!options_.threads || !GroupPlan::applies(round, machines_)) return;
  averaging_ = options_.threads->submit(*across_, across_->begin(*window_, round, on_host(number, weight),
                                                                 gather_options(number), options_.count));
}

template <class T>
Own Channel<T>::on_host(std::uint64_t number, double weight) const {
  Own own{nullptr, dtype_of<T>(), window_->slot(version(number)).data(), options_.wire, weight};
  own.draw = draw_of(number);
  return own;
}

template <class T>
GatherOptions Channel<T>::gather_options(std::uint64_t number, std::optional<Deadline> deadline) const {
  GatherOptions options;
  options.self = self_;
  options.members = &members_;
  options.version = version(number);
  options.deadline = deadline.value_or(clock_.now() + options_.patience);
  options.clock = &clock_;
  return options;
}

template <class T>
const Gathered& Channel<T>::gather(const graph::WorkerRound& round, const void* own_values, double weight,
                                   std::optional<Deadline> deadline) {
  if (releasing_ > 0) work_.completions.drain();  // one thread at a time reads a window
  const void* const published = slot_bytes(published_);
  Own own{own_values, dtype_of<T>(), published, options_.wire, weight};
  if (!own.values) own.values = lossy() ? static_cast<const void*>(values_.data()) : published;
  own.moved = options_.values_move;
  own.draw = draw_of(published_);
  if (coded()) {
    own.published = replicas_->own();
    own.moved = true;
    return gather_replicas(round, own, gather_options(published_, deadline));
  }
  row_ = graph::row_of(round, self_);
  if (!work_.device.host() && !own.moved) own.published = nullptr;  // Note [One's own rounding]
  if (across_) work_.completions.drain();                           // the averaging begins there
  GatherOptions options = gather_options(published_, deadline);
  meant_ = {};
  if (averaging_.valid()) {
    const Clock::Time begin = clock_.now();
    const auto done = averaging_.get();
    done->report.waited = clock_.now() - begin;  // the rest was under way while the model computed
    return take_mean(*done, own, round.group);
  }
  if (GroupPlan::applies(round, machines_)) {
    const auto work = across_->begin(*window_, round, on_host(published_, weight), options, options_.count);
    across_->run(*work);
    return take_mean(*work, own, round.group);
  }
  options.directed = schedule_.directed();
  options.kept = kept_;
  gathered_.emplace(gossip::gather(*window_, round, own, options));
  if (options_.trace) trace_messages();
  if (copies_) copy_arrivals();
  if (reducer_ && GroupReducer<T>::pays(round, options_.count, options_.least_sum))
    reducer_->sum(*gathered_, round, own, options_.count, options);
  return *gathered_;
}

template <class T>
const Gathered& Channel<T>::take_mean(typename MachineReducer<T>::Round& round, const Own& own,
                                      const std::vector<Rank>& group) {
  for (const Rank rank : group) {
    if (rank != self_ && round.report.complete()) round.report.read.push_back(members_.at(rank));
  }
  if (!mean_.empty()) {
    across_->copy_mean(round, {mean_.as<T>(), options_.count});
    work_.inbound->copy(mean_here_.data(), mean_.data(), mean_.bytes());
    work_.device.compute().after(work_.inbound->mark());
    round.mean.clear();
    round.mean.push_back({{0, options_.count}, {mean_here_.data(), dtype_of<T>(), 1}, {}});
  }
  for (const MeanPart& part : round.mean) {
    if (!work_.device.host()) break;
    const SampledVector published{slot_bytes(published_) + bytes_of(options_.wire, part.extent.first),
                                  options_.wire};
    meant_.add(gossip::sample_consensus(published, {part.mean.data, part.mean.type, part.mean.weight},
                                        group.size(), part.extent.count, published_));
  }
  return gathered_.emplace(Gathered::of_mean(std::move(round.mean), own, std::move(round.report)));
}

template <class T>
NeighbourSample Channel<T>::sample_neighbours(double weight) const {
  NeighbourSample sample;
  if (!work_.device.host() || !gathered_ || coded()) return sample;
  const SampledVector own{slot_bytes(published_), options_.wire, 1 / weight};
  std::vector<SampledVector> others;
  for (const comm::Arrival& arrival : gathered_->arrivals()) {
    if (arrival.data().size() != message_bytes()) continue;
    const auto term = std::ranges::find(row_, members_.rank_of(arrival.peer()), &graph::Term::rank);
    others.push_back({arrival.data().data(), options_.wire, 1 / arrival.header().weight,
                      term == row_.end() ? 0 : term->weight});
    sample.peers.push_back({arrival.peer(), {}});
  }
  std::vector<ConsensusSample> each(others.size());
  sample.all = gossip::sample_consensus(own, others, options_.count, published_, each);
  for (std::size_t k = 0; k < each.size(); ++k)
    sample.peers[k].apart = each[k];
  if (meant_.elements > 0) sample.all = meant_;
  return sample;
}

template <class T>
const T* Channel<T>::published_values(std::size_t first) const {
  if (!work_.device.host() || coded() || published_ == 0) return nullptr;
  if (lossy()) return values_.empty() ? nullptr : values_.template as<T>() + first;
  return reinterpret_cast<const T*>(slot_bytes(published_)) + first;
}

template <class T>
const std::byte* Channel<T>::copy_of(std::size_t k, const comm::Arrival& arrival) {
  if (k == 0) work_.inbound->after(inbox_read_);  // of the round before, where a step has several
  if (k == inbox_.size()) inbox_.push_back(work_.device.allocate(largest_message()));
  work_.inbound->copy(inbox_[k].data(), arrival.data().data(), arrival.data().size());
  return inbox_[k].data();
}

template <class T>
void Channel<T>::copy_arrivals() {
  const std::vector<comm::Arrival>& arrivals = gathered_->arrivals();
  if (arrivals.empty()) return;
  std::vector<const void*> places;
  for (std::size_t k = 0; k < arrivals.size(); ++k)
    places.push_back(copy_of(k, arrivals[k]));
  work_.device.compute().after(work_.inbound->mark());
  gathered_->read_copies(places);
}

template <class T>
void Channel<T>::trace_messages() const {
  for (const comm::Arrival& arrival : gathered_->arrivals()) {
    const comm::Header& header = arrival.header();
    if (header.published == Clock::Time{}) continue;  // the peer does not trace
    telemetry::Event event;
    event.name = "version " + std::to_string(header.version.step) + " of worker " +
                 std::to_string(arrival.peer().value);
    event.category = "message";
    event.worker = transport_.self();
    event.track = "message " + options_.name;
    event.start = header.published;
    event.duration = clock_.now() - header.published;
    event.args = {{"bytes", static_cast<std::int64_t>(header.bytes)}};
    options_.trace->record(event);
    // The arrow ends in the step that takes the message up.
    options_.trace->record(
        telemetry::FlowEnd{.name = "version",
                           .id = flow_id(arrival.peer(), header.version, transport_.self()),
                           .side = telemetry::FlowEnd::Side::end,
                           .worker = transport_.self(),
                           .track = "main",
                           .time = event.start + event.duration});
  }
}

template <class T>
std::string Channel<T>::flow_id(WorkerId writer, Version which, WorkerId reader) const {
  return options_.name + " " + std::to_string(which.view) + ":" + std::to_string(which.step) + " " +
         std::to_string(writer.value) + " " + std::to_string(reader.value);
}

template <class T>
void Channel<T>::trace_publication(std::uint64_t number, const comm::PublishOptions& options) const {
  telemetry::Event event;
  event.name = "publish " + std::to_string(number);
  event.category = "message";
  event.worker = transport_.self();
  event.track = "publish " + options_.name;
  event.start = options.time;
  event.duration = clock_.now() - options.time;
  event.args = {{"bytes", static_cast<std::int64_t>(options.bytes)},
                {"readers", static_cast<std::int64_t>(options.readers.size())}};
  options_.trace->record(event);
  for (const WorkerId reader : options.readers)
    options_.trace->record(telemetry::FlowEnd{.name = "version",
                                              .id = flow_id(transport_.self(), version(number), reader),
                                              .side = telemetry::FlowEnd::Side::begin,
                                              .worker = transport_.self(),
                                              .track = event.track,
                                              .time = options.time});
}

template class Channel<float>;
template class Channel<double>;

}  // namespace kith::gossip
