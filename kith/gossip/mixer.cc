#include "kith/gossip/mixer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/rng.h"
#include "kith/comm/take_slot.h"

namespace kith::gossip {
namespace {

std::unique_ptr<comm::Window> open_window(comm::Transport& transport, const Members& members,
                                          const MixerOptions& options, Deadline deadline) {
  comm::WindowOptions window;
  window.name = options.name;
  window.bytes = options.count * size_of(options.wire);
  window.shape_digest = hash_words(options.count, options.wire);
  window.peers = members.workers;
  return transport.open(window, deadline);
}

template <class T>
std::unique_ptr<GroupReducer<T>> open_reducer(comm::Transport& transport, const graph::Schedule& schedule,
                                              const Members& members, kernels::Kernels<T>& kernels,
                                              const MixerOptions& options, Deadline deadline) {
  // All workers must open the same windows, so the question is put for every rank's rounds.
  for (std::int64_t t = 0; t < schedule.period(); ++t) {
    for (Rank rank = 0; rank < schedule.workers(); ++rank) {
      if (GroupReducer<T>::pays(schedule.round(rank, t), options.count)) {
        return std::make_unique<GroupReducer<T>>(
            transport, kernels,
            typename GroupReducer<T>::Options{options.name, options.count, members.workers, deadline});
      }
    }
  }
  return nullptr;
}

template <class T>
std::unique_ptr<MachineReducer<T>> open_across(comm::Transport& transport, const graph::Schedule& schedule,
                                               const Members& members, const MixerOptions& options,
                                               Deadline deadline) {
  const std::vector<int> machines = machines_of(transport, members);
  const HopSizes sizes = HopSizes::of(schedule, machines, options.count);
  if (!sizes.any()) return nullptr;
  return std::make_unique<MachineReducer<T>>(
      transport, typename MachineReducer<T>::Options{options.name, options.count, options.wire, sizes,
                                                     machines, members.workers, deadline});
}

}  // namespace

template <class T>
Mixer<T>::Mixer(comm::Transport& transport, const graph::Schedule& schedule, Members members,
                kernels::Kernels<T>& kernels, const Clock& clock, MixerOptions options)
    : transport_(transport),
      schedule_(schedule),
      members_(std::move(members)),
      kernels_(kernels),
      clock_(clock),
      options_(std::move(options)),
      self_(members_.rank_of(transport.self())),
      machines_(machines_of(transport, members_)),
      window_(open_window(transport, members_, options_, clock.now() + options_.open_timeout)),
      reducer_(open_reducer<T>(transport, schedule, members_, kernels, options_,
                               clock.now() + options_.open_timeout)),
      across_(open_across<T>(transport, schedule, members_, options_, clock.now() + options_.open_timeout)) {
  KITH_CHECK_EQ(members_.size(), schedule.workers(), "one member for each worker of the schedule");
  if (options_.wire != dtype_of<T>()) private_values_.resize(options_.count);
}

template <class T>
std::span<T> Mixer<T>::values() {
  if (options_.wire != dtype_of<T>()) return private_values_;
  return {reinterpret_cast<T*>(window_->slot(version(t_)).data()), options_.count};
}

template <class T>
Own Mixer<T>::own(Version v) {
  return {values().data(), dtype_of<T>(), window_->slot(v).data(), options_.wire, weight_};
}

template <class T>
void Mixer<T>::publish(std::int64_t t) {
  const graph::WorkerRound round = schedule_.round(self_, t);
  if (schedule_.directed()) kept_ = kept_share(transport_, members_, round, self_);
  comm::PublishOptions publish;
  publish.bytes = options_.count * size_of(options_.wire);
  publish.weight = weight_;
  address(publish, round, members_, self_, machines_, options_.count, size_of(options_.wire));
  window_->publish(version(t), publish);
}

template <class T>
void Mixer<T>::start() {
  KITH_CHECK_EQ(t_, 0, "start comes before the first round");
  const auto slot = window_->begin(version(0), clock_.now() + options_.open_timeout);
  KITH_CHECK(std::holds_alternative<std::span<std::byte>>(slot), "a fresh window's slots are free");
  if (!private_values_.empty()) {
    kernels_.convert(window_->slot(version(0)).data(), options_.wire, private_values_.data(), dtype_of<T>(),
                     options_.count);
  }
  publish(0);
}

template <class T>
RoundReport Mixer<T>::round(Deadline deadline) {
  const Version now = version(t_);
  const Version next = version(t_ + 1);
  const graph::WorkerRound round = schedule_.round(self_, t_);
  const GatherOptions options{self_, &members_, now, deadline, &clock_, schedule_.directed(), kept_};
  const Own mine = own(now);
  const bool across = GroupPlan::applies(round, machines_);
  std::optional<Gathered> gathered;
  if (!across) gathered = gather(*window_, round, mine, options);

  // The next slot holds version t-1; its readers have had a whole round to let go of it. One that has not by
  // the deadline is slow or gone, but its memory cannot be taken from under it: wait on, boundedly, until it
  // is judged lost.
  const Clock::Time before = clock_.now();
  comm::take_slot(*window_, next, std::max(deadline, before + options_.open_timeout),
                  cat(transport_.self(), ", round ", t_));
  const Clock::Duration held_up = clock_.now() - before;

  kernels::Destination<T> to;
  if (private_values_.empty()) {
    to.values = reinterpret_cast<T*>(window_->slot(next).data());
  } else {
    to = {private_values_.data(), window_->slot(next).data(), options_.wire};
  }
  std::vector<T> before_mix;
  if (options_.measure_shift && !private_values_.empty()) before_mix = private_values_;
  const T* const old = before_mix.empty() ? static_cast<const T*>(mine.values) : before_mix.data();

  RoundReport report;
  if (across) {
    report = mix_group_across(round, mine, to, options);
  } else if (reducer_ && GroupReducer<T>::pays(round, options_.count)) {
    report = reducer_->reduce(*gathered, round, mine, to, options_.count, options);
  } else {
    kernels_.mix(to, gathered->mix(), options_.count);
    report = gathered->report();
  }
  report.waited += held_up;
  if (options_.measure_shift)
    report.squared_shift = kernels_.norms(to.values, old, options_.count).squared_distance;
  weight_ = report.weight;
  ++t_;
  publish(t_);
  return report;
}

template <class T>
RoundReport Mixer<T>::mix_group_across(const graph::WorkerRound& round, const Own& own,
                                       const kernels::Destination<T>& to, const GatherOptions& options) {
  if (!own.lossy()) return across_->reduce(*window_, round, own, options, {to.values, options_.count});
  mean_.resize(options_.count);
  const RoundReport report = across_->reduce(*window_, round, own, options, mean_);
  const kernels::Source sources[] = {
      {mean_.data(), dtype_of<T>(), 1}, {own.values, own.type, 1}, own.as_published(-1)};
  kernels_.mix(to, {sources, 1}, options_.count);
  return report;
}

template class Mixer<float>;
template class Mixer<double>;

}  // namespace kith::gossip
