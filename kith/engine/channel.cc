#include "kith/engine/channel.h"

#include <utility>
#include <variant>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/rng.h"

namespace kith::engine {
namespace {

std::unique_ptr<comm::Window> open_window(const World& world, const ChannelOptions& options) {
  comm::WindowOptions window;
  window.name = options.name;
  window.bytes = options.count * size_of(options.wire);
  window.shape_digest = hash_words(options.digest, options.wire);
  window.peers = world.members.workers;
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
      machines_(gossip::machines_of(*world.transport, world.members)),
      window_(open_window(world, options)),
      across_(open_across<T>(world, options, machines_)),
      mean_(across_ ? options.count : 0) {
  if (lossy() && options.keeps_values) values_.resize(options.count);
}

template <class T>
T* Channel<T>::slot(std::uint64_t number) const {
  KITH_CHECK(!lossy(), "a lossy slot holds no values");
  return reinterpret_cast<T*>(window_->slot(version(number)).data());
}

template <class T>
std::byte* Channel<T>::next_slot() {
  const Version next = version(published_ + 1);
  if (!next_is_open_) {
    auto slot = window_->begin(next, world_.clock->now() + options_.patience);
    if (const auto* held = std::get_if<comm::Late>(&slot)) {
      throw Error(cat(held->peer, " has held ", options_.name, " version ", held->version, " for ",
                      seconds(held->waited), " s"),
                  cat(world_.self()), "the peer hangs: look at its log, or end it");
    }
    next_is_open_ = true;
  }
  return window_->slot(next).data();
}

template <class T>
kernels::Destination<T> Channel<T>::outgoing(std::size_t first) {
  std::byte* const slot = next_slot();
  if (!lossy()) return {reinterpret_cast<T*>(slot) + first, nullptr, {}};
  T* const values = values_.empty() ? nullptr : values_.data() + first;
  return {values, slot + first * size_of(options_.wire), options_.wire};
}

template <class T>
void Channel<T>::publish(const graph::WorkerRound& round, double weight) {
  next_slot();
  ++published_;
  next_is_open_ = false;
  comm::PublishOptions options{.bytes = message_bytes(), .weight = weight};
  gossip::address(options, round, world_.members, world_.rank(), machines_, options_.count,
                  size_of(options_.wire));
  if (world_.trace) options.time = world_.clock->now();
  window_->publish(version(published_), options);
  if (!gossip::GroupPlan::applies(round, machines_)) return;
  const gossip::Own own{nullptr, dtype_of<T>(), window_->slot(version(published_)).data(), options_.wire,
                        weight};
  averaging_ =
      options_.threads->submit(*across_, across_->begin(*window_, round, own, gather_options(), mean_));
}

template <class T>
gossip::GatherOptions Channel<T>::gather_options() const {
  gossip::GatherOptions options;
  options.self = world_.rank();
  options.members = &world_.members;
  options.version = version(published_);
  options.deadline = world_.clock->now() + options_.patience;
  options.clock = world_.clock;
  return options;
}

template <class T>
const gossip::Gathered& Channel<T>::gather(const graph::WorkerRound& round, const void* own_values,
                                           double weight, bool directed) {
  const void* const published = window_->slot(version(published_)).data();
  gossip::Own own{own_values, dtype_of<T>(), published, options_.wire, weight};
  if (!own.values) own.values = lossy() ? static_cast<const void*>(values_.data()) : published;
  if (averaging_.valid()) {
    const Clock::Time begin = world_.clock->now();
    gossip::RoundReport report = averaging_.get();
    report.waited = world_.clock->now() - begin;  // the rest was under way while the model computed
    return gathered_.emplace(gossip::Gathered::of_mean(mean_.data(), own, std::move(report)));
  }
  gossip::GatherOptions options = gather_options();
  options.directed = directed;
  gathered_.emplace(gossip::gather(*window_, round, own, options));
  if (world_.trace) trace_messages();
  return *gathered_;
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
