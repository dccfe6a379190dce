#include "kith/gossip/collective.h"

#include <numeric>
#include <utility>

#include "kith/base/check.h"
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
                                   const PinMemory& pin) {
  comm::WindowOptions window;
  window.name = name;
  window.bytes = bytes;
  window.shape_digest = hash_words(bytes);
  window.peers = members.workers;
  window.pin = pin;
  return window;
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
      across_(open_across<T>(transport, everybody_, machines_, members_, options_, wire(),
                             clock.now() + options_.open_timeout)),
      reducer_(!across_ && GroupReducer<T>::pays(everybody_, options_.count)
                   ? std::make_unique<GroupReducer<T>>(
                         transport,
                         typename GroupReducer<T>::Options{options_.name, options_.count, members_.workers,
                                                           clock.now() + options_.open_timeout, wire()})
                   : nullptr) {}

template <class T>
std::size_t Collective<T>::window_bytes() const {
  return static_cast<std::size_t>(vectors_->options().slots) * vectors_->options().bytes +
         (reducer_ ? reducer_->window_bytes() : 0) + (across_ ? across_->memory_bytes() : 0);
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
  address(publication, everybody_, members_, self_, machines_, to.size(), wire());
  vectors_->publish(version, publication);
  const void* const published = vectors_->slot(version).data();
  const Own own{published, wire(), published, wire(), 1};  // rounded for oneself as for the others
  const GatherOptions options{self_, &members_, version, deadline, &clock_, false};
  if (across_) return across_->reduce(*vectors_, everybody_, own, options, to);
  Gathered gathered = gossip::gather(*vectors_, everybody_, own, options);
  if (reducer_) reducer_->sum(gathered, everybody_, own, to.size(), options);
  mix_into({to.data(), nullptr, DType::bf16}, gathered, to.size(), kernels_);
  return gathered.report();
}

template <class T>
RoundReport Collective<T>::mean(std::span<T> x, Deadline deadline) {
  kernels_.convert(outgoing(x.size(), deadline).data(), wire(), x.data(), dtype_of<T>(), x.size());
  return mean_of_outgoing(x, deadline);
}

template class Collective<float>;
template class Collective<double>;

}  // namespace kith::gossip
