#include "kith/gossip/collective.h"

#include <cstring>
#include <limits>
#include <numeric>
#include <utility>
#include <variant>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/comm/take_slot.h"

namespace kith::gossip {
namespace {

graph::WorkerRound group_of(const Members& members) {
  graph::WorkerRound round;
  round.group.resize(static_cast<std::size_t>(members.size()));
  std::iota(round.group.begin(), round.group.end(), 0);
  return round;
}

comm::WindowOptions window_options(const Members& members, const std::string& name, std::size_t bytes,
                                   const PinMemory& pin = {}) {
  comm::WindowOptions window;
  window.name = name;
  window.bytes = bytes;
  window.shape_digest = hash_words(bytes);
  window.peers = members.workers;
  window.pin = pin;
  return window;
}

void publish(comm::Window& window, Version version, std::size_t bytes, const Members& members,
             WorkerId self) {
  comm::PublishOptions options;
  options.bytes = bytes;
  for (WorkerId worker : members.workers) {
    if (worker != self) options.readers.push_back(worker);
  }
  window.publish(version, options);
}

template <class T>
std::unique_ptr<MachineReducer<T>> open_across(comm::Transport& transport,
                                               const graph::WorkerRound& everybody,
                                               const std::vector<int>& machines, const Members& members,
                                               const CollectiveOptions& options, DType wire,
                                               Deadline deadline) {
  if (!GroupPlan::applies(everybody, machines)) return nullptr;
  HopSizes sizes;
  for (Rank rank : everybody.group)
    sizes.include(GroupPlan(everybody.group, machines, rank, options.count));
  return std::make_unique<MachineReducer<T>>(
      transport, typename MachineReducer<T>::Options{options.name, options.count, wire, sizes, machines,
                                                     members.workers, deadline, Rounding::shared});
}

}  // namespace

template <class T>
Collective<T>::Collective(comm::Transport& transport, Members members, kernels::Kernels<T>& kernels,
                          const Clock& clock, CollectiveOptions options)
    : transport_(transport),
      members_(std::move(members)),
      kernels_(kernels),
      clock_(clock),
      options_(std::move(options)),
      self_(members_.rank_of(transport.self())),
      everybody_(group_of(members_)),
      machines_(machines_of(transport, members_)),
      vectors_(transport.open(
          window_options(members_, options_.name, options_.count * size_of(wire()), options_.pin),
          clock.now() + options_.open_timeout)),
      scalars_(transport.open(window_options(members_, options_.name + "/scalar", sizeof(double)),
                              clock.now() + options_.open_timeout)),
      across_(open_across<T>(transport, everybody_, machines_, members_, options_, wire(),
                             clock.now() + options_.open_timeout)),
      reducer_(!across_ && GroupReducer<T>::pays(everybody_, options_.count)
                   ? std::make_unique<GroupReducer<T>>(
                         transport, kernels,
                         typename GroupReducer<T>::Options{options_.name, options_.count, members_.workers,
                                                           clock.now() + options_.open_timeout, wire()})
                   : nullptr) {}

template <class T>
std::size_t Collective<T>::window_bytes() const {
  const auto slots = [](const comm::Window& w) {
    return static_cast<std::size_t>(w.options().slots) * w.options().bytes;
  };
  return slots(*vectors_) + slots(*scalars_) + (reducer_ ? reducer_->window_bytes() : 0) +
         (across_ ? across_->memory_bytes() : 0);
}

template <class T>
std::span<std::byte> Collective<T>::outgoing(std::size_t count, Deadline deadline) {
  KITH_CHECK_LE(count, options_.count, options_.name);
  return comm::take_slot(*vectors_, next_vector(), deadline, cat(transport_.self()))
      .first(count * size_of(wire()));
}

template <class T>
RoundReport Collective<T>::mean_of_outgoing(std::span<T> to, Deadline deadline) {
  const Version version = next_vector();
  ++vector_step_;
  comm::PublishOptions publication{.bytes = to.size() * size_of(wire())};
  address(publication, everybody_, members_, self_, machines_, to.size(), size_of(wire()));
  vectors_->publish(version, publication);
  const void* const published = vectors_->slot(version).data();
  const Own own{published, wire(), published, wire(), 1};  // rounded for oneself as for the others
  const GatherOptions options{self_, &members_, version, deadline, &clock_, false};
  if (across_) return across_->reduce(*vectors_, everybody_, own, options, to);
  const Gathered gathered = gossip::gather(*vectors_, everybody_, own, options);
  const kernels::Destination<T> destination{to.data(), nullptr, DType::bf16};
  if (reducer_) return reducer_->reduce(gathered, everybody_, own, destination, to.size(), options);
  kernels_.mix(destination, gathered.mix(), to.size());
  return gathered.report();
}

template <class T>
RoundReport Collective<T>::mean(std::span<T> x, Deadline deadline) {
  kernels_.convert(outgoing(x.size(), deadline).data(), wire(), x.data(), dtype_of<T>(), x.size());
  return mean_of_outgoing(x, deadline);
}

template <class T>
void Collective<T>::broadcast(std::span<T> x, Rank root, Deadline deadline) {
  KITH_CHECK(wire() == dtype_of<T>(), "a first model is not rounded");
  const Version version = next_vector();
  const std::span<std::byte> slot = outgoing(x.size(), deadline);
  ++vector_step_;
  if (self_ == root) {
    std::memcpy(slot.data(), x.data(), x.size_bytes());
    publish(*vectors_, version, x.size_bytes(), members_, transport_.self());
    return;
  }
  vectors_->publish(version, {});
  const comm::Outcome outcome = vectors_->await(members_.at(root), version, deadline);
  const auto* arrival = std::get_if<comm::Arrival>(&outcome);
  if (!arrival) {
    throw Error(cat(members_.at(root), std::holds_alternative<comm::Lost>(outcome) ? " is gone" : " is late",
                    " with the first model"),
                cat(transport_.self(), ", ", options_.name), "look at that worker's log");
  }
  KITH_CHECK_EQ(arrival->header().bytes, x.size_bytes(), "the root's vector has the same size");
  std::memcpy(x.data(), arrival->data().data(), x.size_bytes());
}

template <class T>
std::vector<double> Collective<T>::gather(double value, Deadline deadline) {
  const Version version{members_.view, scalar_step_++};
  std::memcpy(comm::take_slot(*scalars_, version, deadline, cat(transport_.self())).data(), &value,
              sizeof(value));
  publish(*scalars_, version, sizeof(value), members_, transport_.self());
  std::vector<double> values(static_cast<std::size_t>(members_.size()),
                             std::numeric_limits<double>::quiet_NaN());
  values[static_cast<std::size_t>(self_)] = value;
  for (Rank rank = 0; rank < members_.size(); ++rank) {
    if (rank == self_) continue;
    const comm::Outcome outcome = scalars_->await(members_.at(rank), version, deadline);
    if (const auto* arrival = std::get_if<comm::Arrival>(&outcome)) {
      std::memcpy(&values[static_cast<std::size_t>(rank)], arrival->data().data(), sizeof(double));
    }
  }
  return values;
}

template <class T>
double Collective<T>::squared_consensus_distance(std::span<const T> x, Deadline deadline) {
  std::vector<T> average(x.begin(), x.end());
  mean(average, deadline);
  return squared_consensus_distance(x, average, deadline);
}

template <class T>
double Collective<T>::squared_consensus_distance(std::span<const T> x, std::span<const T> mean,
                                                 Deadline deadline) {
  const std::vector<double> all =
      gather(kernels_.norms(x.data(), mean.data(), x.size()).squared_distance, deadline);
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

template class Collective<float>;
template class Collective<double>;

}  // namespace kith::gossip
