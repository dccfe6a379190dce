// A channel with a codec: differences and replicas, Note [Differences].
#include <algorithm>
#include <utility>
#include <variant>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/gossip/channel.h"

namespace kith::gossip {

// What was published before the state was saved, and not read, is published again as it was.
template <class T>
void Channel<T>::encode(bool exchanges) {
  const std::span<std::byte> slot{slot_bytes(published_ + 1), largest_message()};
  const bool again = std::exchange(fresh_, false) && options_.read_later && replicas_->restored();
  exchanged_ = exchanges;
  written_ = 0;
  if (!exchanges) return;
  written_ = again ? replicas_->write_again(slot) : replicas_->write(values_.as<T>(), published_ + 1, slot);
}

template <class T>
const Gathered& Channel<T>::gather_replicas(const graph::WorkerRound& round, const Own& own,
                                            const GatherOptions& options) {
  RoundReport report;
  report.weight = own.weight;
  if (!exchanged_) return gathered_.emplace(Gathered::of_sources({}, own, 1, 0, std::move(report)));
  const Clock::Time begin = clock_.now();
  std::vector<double> weights(period_.reads.size(), 0);  // push-sum's
  std::vector<comm::Arrival> arrivals;
  for (std::size_t k = 0; k < period_.reads.size(); ++k) {
    const WorkerId peer = members_.at(period_.reads[k].rank);
    comm::Outcome outcome = window_->await(peer, options.version, options.deadline);
    if (auto* const arrival = std::get_if<comm::Arrival>(&outcome)) {
      report.bytes_read += arrival->header().bytes;
      weights[k] = arrival->header().weight;
      arrivals.push_back(std::move(*arrival));
    } else if (std::holds_alternative<comm::Lost>(outcome)) {
      report.lost.push_back(peer);
    } else if (schedule_.directed()) {
      throw Error(cat(peer, " is late, and whoever reads it cannot ask for what was missed"), options_.name,
                  "a longer patience, or go on from the last checkpoint");
    } else {
      report.late.push_back(peer);
      replicas_->miss(peer);
    }
  }
  take_messages(arrivals);
  for (const comm::Arrival& arrival : arrivals)
    if (replicas_->knows(arrival.peer())) report.read.push_back(arrival.peer());
  report.waited = clock_.now() - begin;

  const double step =
      options_.consensus_step > 0 ? options_.consensus_step : replicas_->codec().consensus_step();
  double own_weight = 0, missing = 0, push_sum = 0;
  std::size_t place = 0;
  std::vector<kernels::Source> sources;
  for (const graph::Term& term : graph::row_of(round, self_)) {
    if (term.rank == self_) {
      own_weight = term.weight;
      place = sources.size();
      continue;
    }
    const auto found = std::ranges::find(period_.reads, term.rank, &graph::Term::rank);
    const auto k = static_cast<std::size_t>(found - period_.reads.begin());
    const WorkerId peer = members_.at(term.rank);
    if (std::ranges::find(report.read, peer) == report.read.end()) {
      missing += term.weight;
      continue;
    }
    push_sum += term.weight * weights[k];
    sources.push_back({replicas_->of(peer), dtype_of<T>(), step * term.weight});
  }
  own_weight += schedule_.directed() ? kept_ : missing;
  report.missing_weight = missing;
  report.weight = push_sum + own_weight * own.weight;
  gathered_.emplace(
      Gathered::of_sources(std::move(sources), own, 1 + step * (own_weight - 1), place, std::move(report)));
  if (!work_.device.host()) gathered_->hold(std::move(arrivals));  // the device has yet to read them
  return *gathered_;
}

template <class T>
void Channel<T>::take_messages(const std::vector<comm::Arrival>& arrivals) {
  constexpr std::size_t kPrefix = Replicas<T>::kPrefixBytes;
  std::vector<std::span<const std::byte>> messages;
  std::vector<const std::byte*> prefixes;  // in host memory
  for (std::size_t k = 0; k < arrivals.size(); ++k) {
    const std::span<const std::byte> data = arrivals[k].data();
    messages.push_back(copies_ ? std::span(copy_of(k, arrivals[k]), data.size()) : data);
    prefixes.push_back(prefixes_.empty() ? data.data() : prefixes_.data() + k * kPrefix);
    if (!prefixes_.empty())
      work_.inbound->copy(prefixes_.data() + k * kPrefix, data.data(), std::min(data.size(), kPrefix));
  }
  const kernels::Mark mark = work_.inbound->mark();
  if (!prefixes_.empty()) kernels::wait(mark);
  if (copies_) work_.device.compute().after(mark);
  for (std::size_t k = 0; k < arrivals.size(); ++k)
    replicas_->take(arrivals[k].peer(), published_, messages[k], prefixes[k]);
}

template void Channel<float>::encode(bool);
template const Gathered& Channel<float>::gather_replicas(const graph::WorkerRound&, const Own&,
                                                         const GatherOptions&);
template void Channel<float>::take_messages(const std::vector<comm::Arrival>&);
template void Channel<double>::encode(bool);
template const Gathered& Channel<double>::gather_replicas(const graph::WorkerRound&, const Own&,
                                                          const GatherOptions&);
template void Channel<double>::take_messages(const std::vector<comm::Arrival>&);

}  // namespace kith::gossip
