#include "kith/engine/channel.h"

#include <utility>

#include "kith/base/check.h"
#include "kith/base/rng.h"
#include "kith/comm/take_slot.h"

namespace kith::engine {
namespace {

// Rounds over machines are computed by the host, so it must be able to read the windows.
bool lies_on_device(const World& world, const ChannelOptions& options) {
  return !options.work->device.host() && world.transport->device_windows() && !options.threads;
}

std::unique_ptr<comm::Window> open_window(const World& world, const ChannelOptions& options) {
  comm::WindowOptions window;
  window.name = options.name;
  window.bytes = options.count * size_of(options.wire);
  window.shape_digest = hash_words(options.digest, options.wire);
  window.peers = world.members.workers;
  if (lies_on_device(world, options)) {
    window.memory = comm::WindowMemory::device;
  } else {
    window.pin = options.work->device.pinner();
  }
  return world.transport->open(window, world.clock->now() + options.patience);
}

template <class T>
std::unique_ptr<gossip::MachineReducer<T>> open_across(const World& world, const ChannelOptions& options,
                                                       const std::vector<int>& machines) {
  if (!options.threads) return nullptr;
  const gossip::HopSizes sizes = gossip::HopSizes::of(*options.schedule, machines, options.count);
  return std::make_unique<gossip::MachineReducer<T>>(
      *world.transport, typename gossip::MachineReducer<T>::Options{options.name, options.count, options.wire,
                                                                    sizes, machines, world.members.workers,
                                                                    world.clock->now() + options.patience});
}

}  // namespace

template <class T>
Channel<T>::Channel(const World& world, const ChannelOptions& options)
    : world_(world),
      options_(options),
      work_(*options.work),
      machines_(gossip::machines_of(*world.transport, world.members)),
      window_(open_window(world, options)),
      copies_(!work_.device.host() && !lies_on_device(world, options)),
      across_(open_across<T>(world, options, machines_)) {
  if (copies_) {
    for (kernels::Buffer& slot : slots_)
      slot = work_.device.allocate(message_bytes());
  }
  if (across_) {
    mean_ = work_.device.allocate_pinned(options.count * sizeof(T));
    mean_here_ = work_.device.host() ? mean_ : work_.device.allocate(options.count * sizeof(T));
  }
  if (lossy() && options.keeps_values) values_ = work_.device.allocate(options.count * sizeof(T));
}

template <class T>
std::size_t Channel<T>::staging_bytes() const {
  std::size_t bytes = values_.bytes() + mean_.bytes() + (across_ ? across_->memory_bytes() : 0);
  if (mean_here_.data() != mean_.data()) bytes += mean_here_.bytes();
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
    comm::take_slot(*window_, next, world_.clock->now() + options_.patience, cat(world_.self()));
    next_is_open_ = true;
  }
  return slot_bytes(published_ + 1);
}

template <class T>
kernels::Destination<T> Channel<T>::outgoing(std::size_t first) {
  std::byte* const slot = next_slot();
  if (!lossy()) return {reinterpret_cast<T*>(slot) + first, nullptr, {}};
  T* const values = values_.empty() ? nullptr : values_.as<T>() + first;
  return {values, slot + first * size_of(options_.wire), options_.wire};
}

template <class T>
void Channel<T>::publish(const graph::WorkerRound& round, double weight) {
  if (options_.schedule->directed())
    kept_ = gossip::kept_share(*world_.transport, world_.members, round, world_.rank());
  next_slot();
  ++published_;
  next_is_open_ = false;
  publication_ = {published_, round, weight};
}

template <class T>
void Channel<T>::finish(const kernels::Mark& mark) {
  if (!publication_ && !gathered_) return;
  // Jobs are copied, arrivals are not.
  const auto read = std::make_shared<std::optional<gossip::Gathered>>(std::exchange(gathered_, std::nullopt));
  work_.completions.submit(
      mark, [this, read, publication = std::exchange(publication_, std::nullopt)](kernels::Queue& queue) {
        if (publication) make_visible(*publication, queue);
        read->reset();
      });
}

template <class T>
void Channel<T>::make_visible(const Publication& publication, kernels::Queue& queue) {
  const auto& [number, round, weight] = publication;
  std::byte* const slot = window_->slot(version(number)).data();
  if (copies_) {
    queue.copy(slot, slot_bytes(number), message_bytes());
    kernels::wait(queue.mark());
  }
  comm::PublishOptions options{.bytes = message_bytes(), .weight = weight};
  gossip::address(options, round, world_.members, world_.rank(), machines_, options_.count,
                  size_of(options_.wire));
  if (world_.trace) options.time = world_.clock->now();
  window_->publish(version(number), options);
  if (!gossip::GroupPlan::applies(round, machines_)) return;
  const gossip::Own own{nullptr, dtype_of<T>(), slot, options_.wire, weight};
  averaging_ = options_.threads->submit(*across_, across_->begin(*window_, round, own, gather_options(number),
                                                                 {mean_.as<T>(), options_.count}));
}

template <class T>
gossip::GatherOptions Channel<T>::gather_options(std::uint64_t number) const {
  gossip::GatherOptions options;
  options.self = world_.rank();
  options.members = &world_.members;
  options.version = version(number);
  options.deadline = world_.clock->now() + options_.patience;
  options.clock = world_.clock;
  return options;
}

template <class T>
const gossip::Gathered& Channel<T>::gather(const graph::WorkerRound& round, const void* own_values,
                                           double weight) {
  const void* const published = slot_bytes(published_);
  gossip::Own own{own_values, dtype_of<T>(), published, options_.wire, weight};
  if (!own.values) own.values = lossy() ? static_cast<const void*>(values_.data()) : published;
  own.moved = options_.values_move;
  if (!work_.device.host() && !own.moved) own.published = nullptr;  // Note [One's own rounding]
  if (across_) {
    work_.completions.drain();  // the averaging begins there
    if (averaging_.valid()) return take_mean(own);
  }
  gossip::GatherOptions options = gather_options(published_);
  options.directed = options_.schedule->directed();
  options.kept = kept_;
  gathered_.emplace(gossip::gather(*window_, round, own, options));
  if (world_.trace) trace_messages();
  if (copies_) copy_arrivals();
  return *gathered_;
}

template <class T>
const gossip::Gathered& Channel<T>::take_mean(const gossip::Own& own) {
  const Clock::Time begin = world_.clock->now();
  gossip::RoundReport report = averaging_.get();
  report.waited = world_.clock->now() - begin;  // the rest was under way while the model computed
  if (mean_here_.data() != mean_.data()) {
    work_.inbound->copy(mean_here_.data(), mean_.data(), mean_.bytes());
    work_.device.compute().after(work_.inbound->mark());
  }
  return gathered_.emplace(gossip::Gathered::of_mean(mean_here_.data(), own, std::move(report)));
}

template <class T>
void Channel<T>::copy_arrivals() {
  const std::vector<comm::Arrival>& arrivals = gathered_->arrivals();
  if (arrivals.empty()) return;
  std::vector<const void*> places;
  for (std::size_t k = 0; k < arrivals.size(); ++k) {
    if (k == inbox_.size()) inbox_.push_back(work_.device.allocate(message_bytes()));
    work_.inbound->copy(inbox_[k].data(), arrivals[k].data().data(), arrivals[k].data().size());
    places.push_back(inbox_[k].data());
  }
  work_.device.compute().after(work_.inbound->mark());
  gathered_->read_copies(places);
}

template <class T>
void Channel<T>::trace_messages() const {
  for (const comm::Arrival& arrival : gathered_->arrivals()) {
    const comm::Header& header = arrival.header();
    if (header.published == Clock::Time{}) continue;  // the peer does not trace
    telemetry::Event event;
    event.name = cat("version ", header.version.step, " of ", arrival.peer());
    event.category = "message";
    event.worker = world_.self();
    event.track = cat("message ", options_.name);
    event.start = header.published;
    event.duration = world_.clock->now() - header.published;
    event.args = {{"bytes", static_cast<std::int64_t>(header.bytes)}};
    world_.trace->record(event);
  }
}

template class Channel<float>;
template class Channel<double>;

}  // namespace kith::engine
