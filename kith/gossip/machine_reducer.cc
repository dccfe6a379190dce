#include "kith/gossip/machine_reducer.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "kith/base/check.h"
#include "kith/base/rng.h"
#include "kith/comm/take_slot.h"
#include "kith/kernels/cpu/cpu_kernels.h"

namespace kith::gossip {
namespace {

kernels::Source at(const void* data, DType type, std::size_t element, double weight = 1) {
  KITH_CHECK_EQ(element % block_of(type), std::size_t{0}, "a part of a vector begins with a block");
  return {static_cast<const std::byte*>(data) + bytes_of(type, element), type, weight};
}

kernels::Source weighted(kernels::Source source, double weight) {
  source.weight = weight;
  return source;
}

void note_missed(RoundReport& report, const comm::Outcome& outcome, WorkerId peer, double weight) {
  (std::holds_alternative<comm::Lost>(outcome) ? report.lost : report.late).push_back(peer);
  report.missing_weight += weight;
}

template <class Options>
std::unique_ptr<comm::Window> open_hop(comm::Transport& transport, const Options& options, const char* hop,
                                       std::size_t count, DType type) {
  if (count == 0) return nullptr;
  comm::WindowOptions window;
  window.name = options.name + "/" + hop;
  window.bytes = bytes_of(type, count);
  window.shape_digest = hash_words(count, type);
  window.peers = options.peers;
  return transport.open(window, options.open_deadline);
}

}  // namespace

// An arrival whose extents lie packed; nothing came when it is empty.
template <class T>
struct MachineReducer<T>::Inbox {
  std::optional<comm::Arrival> arrival;
  std::map<std::size_t, std::size_t> places;  // first element of an extent -> its place in the arrival

  kernels::Source at(std::size_t first, DType wire) const {
    return gossip::at(arrival->data().data(), wire, places.at(first));
  }
};

template <class T>
MachineReducer<T>::MachineReducer(comm::Transport& transport, const Options& options)
    : options_(options),
      sums_(open_hop(transport, options, "sum", options.sizes.sums, options.wire)),
      totals_(open_hop(transport, options, "total", options.sizes.totals, options.wire)),
      results_(open_hop(transport, options, "result", options.sizes.results, result_type())) {
  for (int stage = 0; stage < kStages; ++stage)
    kernels_.push_back(kernels::make_cpu_kernels<T>({}));
}

template <class T>
MachineReducer<T>::~MachineReducer() = default;

template <class T>
std::size_t MachineReducer<T>::memory_bytes() const {
  std::size_t bytes = (kept_.size() + exact_.size() + alone_.size()) * sizeof(T);
  for (const comm::Window* window : {sums_.get(), totals_.get(), results_.get()}) {
    if (window) bytes += static_cast<std::size_t>(window->options().slots) * window->options().bytes;
  }
  return bytes;
}

template <class T>
std::unique_ptr<typename MachineReducer<T>::Round> MachineReducer<T>::begin(comm::Window& vectors,
                                                                            const graph::WorkerRound& round,
                                                                            const Own& own,
                                                                            const GatherOptions& options,
                                                                            std::size_t count) {
  GroupPlan plan(round.group, options_.machines, options.self, count, options_.wire);
  const bool alone = plan.mates().size() == 1;
  if (alone) alone_.resize(std::max(alone_.size(), count));
  const std::span<T> to(alone_.data(), alone ? count : 0);
  auto work =
      std::make_unique<Round>(Round{vectors, own, options, count, to, std::move(plan), {}, {}, {}, {}});
  for (const Message& message : work->plan.sums_out()) {
    std::size_t place = message.offset;
    for (const Extent& extent : message.extents) {
      work->sent[extent.first] = place;
      place += extent.count;
    }
  }
  return work;
}

template <class T>
kernels::Source MachineReducer<T>::sent_at(const Round& round, std::size_t first) const {
  if (round.plan.flat()) return at(round.own.published, options_.wire, first);
  return at(sums_->slot(round.options.version).data(), options_.wire, round.sent.at(first));
}

template <class T>
kernels::Source MachineReducer<T>::sum_at(const Round& round, std::size_t first) const {
  if (round.plan.flat()) return at(round.own.published, options_.wire, first);
  if (!lossy() && round.sent.contains(first)) return sent_at(round, first);
  return at(kept_.data(), dtype_of<T>(), first - round.plan.own_shard().first);
}

template <class T>
kernels::Destination<T> MachineReducer<T>::result_at(const Round& round, std::size_t first) const {
  if (round.plan.mates().size() == 1) return {round.to.data() + first};
  std::byte* const place = results_->slot(round.options.version).data() +
                           bytes_of(result_type(), first - round.plan.own_shard().first);
  if (shares_rounding()) return {nullptr, place, options_.wire};
  return {reinterpret_cast<T*>(place)};
}

// Machines draw alike, as workers do for what they publish.
template <class T>
std::uint64_t MachineReducer<T>::draw_at(const Round& round, Stage stage, std::size_t first) const {
  return hash_words(round.own.draw, stage) + first;
}

template <class T>
void MachineReducer<T>::begin_slot(comm::Window& window, const Round& round) const {
  comm::take_slot(window, round.options.version, round.options.deadline,
                  cat(round.options.members->at(round.options.self)));
}

template <class T>
void MachineReducer<T>::publish(comm::Window& window, const Round& round,
                                const std::vector<Message>& messages, std::size_t count,
                                double weight) const {
  const auto bytes = [&](std::size_t elements) { return bytes_of(options_.wire, elements); };
  comm::PublishOptions publish{.bytes = bytes(count), .codec = mark_of(round.report), .weight = weight};
  for (const Message& message : messages) {
    publish.readers.push_back(round.options.members->at(message.peer));
    publish.ranges.push_back({bytes(message.offset), bytes(message.count)});
  }
  window.publish(round.options.version, publish);
}

template <class T>
typename MachineReducer<T>::Inbox MachineReducer<T>::receive(comm::Window& window, Round& round,
                                                             const Message& message,
                                                             std::size_t members) const {
  const WorkerId peer = round.options.members->at(message.peer);
  comm::Outcome outcome = window.await(peer, round.options.version, round.options.deadline);
  Inbox inbox;
  if (auto* arrival = std::get_if<comm::Arrival>(&outcome)) {
    KITH_CHECK_EQ(arrival->header().bytes, bytes_of(options_.wire, message.count), "a hop's message");
    round.report.bytes_read += arrival->header().bytes;
    note_mark(round.report, arrival->header().codec);
    inbox.arrival.emplace(std::move(*arrival));
    std::size_t place = 0;
    for (const Extent& extent : message.extents) {
      inbox.places[extent.first] = place;
      place += extent.count;
    }
  } else {
    const double share = static_cast<double>(message.count) / static_cast<double>(round.count);
    note_missed(round.report, outcome, peer,
                share * static_cast<double>(members) / static_cast<double>(round.plan.size()));
  }
  return inbox;
}

template <class T>
void MachineReducer<T>::sum_inside(Round& round) {
  const Clock::Time start = round.options.clock->now();
  const GroupPlan& plan = round.plan;
  round.report.weight = round.weight_inside = round.own.weight;
  if (plan.flat()) return;
  const Extent shard = plan.own_shard();
  if (shard.count == 0) return;

  std::vector<comm::Arrival> arrivals;
  std::vector<kernels::Source> mates;
  for (Rank rank : plan.mates()) {
    if (rank == round.options.self) {
      mates.push_back(at(round.own.published, options_.wire, shard.first));
      continue;
    }
    const WorkerId peer = round.options.members->at(rank);
    comm::Outcome outcome = round.vectors.await(peer, round.options.version, round.options.deadline);
    if (auto* arrival = std::get_if<comm::Arrival>(&outcome)) {
      round.report.bytes_read += arrival->header().bytes;
      round.weight_inside += arrival->header().weight;
      mates.push_back(at(arrival->data().data(), options_.wire, 0));
      arrivals.push_back(std::move(*arrival));
    } else {
      note_missed(round.report, outcome, peer, 1.0 / static_cast<double>(plan.size()));
    }
  }
  round.report.waited += round.options.clock->now() - start;

  begin_slot(*sums_, round);
  std::byte* const slot = sums_->slot(round.options.version).data();
  double scale = static_cast<double>(plan.mates().size()) / static_cast<double>(mates.size());
  round.weight_inside *= scale;
  if (shares_rounding()) scale /= static_cast<double>(plan.size());
  std::vector<kernels::Source> shifted;
  const auto sum = [&](const Extent& extent, const kernels::Destination<T>& to) {
    shifted = mates;
    for (kernels::Source& source : shifted)
      source = at(source.data, source.type, extent.first - shard.first);
    kernels_[kInside]->mix(to, {shifted, scale}, extent.count);
  };
  if (lossy() || !plan.direct()) kept_.resize(std::max(kept_.size(), shard.count));
  const auto kept = [&](const Extent& extent) { return kept_.data() + (extent.first - shard.first); };
  for (const Message& message : plan.sums_out()) {
    for (const Extent& extent : message.extents) {
      std::byte* const place = slot + bytes_of(options_.wire, round.sent.at(extent.first));
      const std::uint64_t draw = draw_at(round, kInside, extent.first);
      sum(extent, lossy() ? kernels::Destination<T>{kept(extent), place, options_.wire, draw}
                          : kernels::Destination<T>{reinterpret_cast<T*>(place), nullptr, DType::bf16});
    }
  }
  if (!plan.direct()) {
    for (const Piece& piece : plan.owned())
      sum(piece.extent, {kept(piece.extent), nullptr, DType::bf16});
  }
  publish(*sums_, round, plan.sums_out(), plan.sums_count(), round.weight_inside);
}

template <class T>
void MachineReducer<T>::write_mean(Stage stage, const Round& round, const Extent& extent,
                                   std::vector<kernels::Source> total, const kernels::Source& exact,
                                   const kernels::Source& rounded) {
  const kernels::Destination<T> to = result_at(round, extent.first);
  if (shares_rounding()) {
    kernels_[stage]->mix(to, {total, 1}, extent.count);
    if (!round.plan.direct() || !to.values) return;
    // The other machine's workers read this sum from a result that is rounded.
    const kernels::Source as_read{to.values, dtype_of<T>(), 1, options_.wire};
    kernels_[stage]->mix(to, {{&as_read, 1}, 1}, extent.count);
    return;
  }
  const auto size = static_cast<double>(round.plan.size());
  if (lossy()) {
    const double spread = size / static_cast<double>(round.plan.mates().size());
    total.push_back(weighted(exact, spread));
    total.push_back(weighted(rounded, -spread));
  }
  kernels_[stage]->mix(to, {total, 1 / size}, extent.count);
}

template <class T>
void MachineReducer<T>::exchange(Round& round) {
  const Clock::Time start = round.options.clock->now();
  const GroupPlan& plan = round.plan;
  std::map<Rank, Inbox> inboxes;
  for (const Message& message : plan.sums_in()) {
    std::size_t members = 0;
    for (const auto& machine : plan.machines()) {
      if (std::find(machine.begin(), machine.end(), message.peer) != machine.end()) members = machine.size();
    }
    inboxes.emplace(message.peer, receive(plan.flat() ? round.vectors : *sums_, round, message, members));
  }
  round.report.waited += round.options.clock->now() - start;
  if (plan.mates().size() > 1 && plan.own_shard().count > 0) begin_slot(*results_, round);
  if (plan.totals_count() > 0) begin_slot(*totals_, round);
  std::byte* const slot = plan.totals_count() > 0 ? totals_->slot(round.options.version).data() : nullptr;
  if (lossy() && !shares_rounding() && !plan.direct())
    exact_.resize(std::max(exact_.size(), plan.totals_count()));

  std::size_t packed = 0;
  for (const Piece& piece : plan.owned()) {
    const Extent& extent = piece.extent;
    std::vector<kernels::Source> sums;
    double present = 0, weights = 0;
    for (std::size_t m = 0; m < piece.carriers.size(); ++m) {
      if (m == plan.home()) {
        sums.push_back(plan.direct() ? sent_at(round, extent.first) : sum_at(round, extent.first));
        weights += round.weight_inside;
      } else if (const Inbox& inbox = inboxes.at(piece.carriers[m]); inbox.arrival) {
        sums.push_back(inbox.at(extent.first, options_.wire));
        weights += inbox.arrival->header().weight;
      } else {
        continue;
      }
      present += static_cast<double>(plan.machines()[m].size());
    }
    const double fill = static_cast<double>(plan.size()) / present;
    round.report.weight = weights / present;
    if (plan.direct()) {
      for (kernels::Source& source : sums)
        source.weight = fill;
      write_mean(kAcross, round, extent, std::move(sums), sum_at(round, extent.first),
                 sent_at(round, extent.first));
      continue;
    }
    std::byte* const place = slot + bytes_of(options_.wire, packed);
    T* const exact = shares_rounding() ? nullptr
                     : lossy()         ? exact_.data() + packed
                                       : reinterpret_cast<T*>(place);
    const double scale = shares_rounding() && plan.flat() ? fill / static_cast<double>(plan.size()) : fill;
    kernels_[kAcross]->mix(
        {exact, lossy() ? place : nullptr, options_.wire, draw_at(round, kAcross, extent.first)},
        {sums, scale}, extent.count);
    write_mean(kAcross, round, extent, {at(place, options_.wire, 0)}, at(exact, dtype_of<T>(), 0),
               at(place, options_.wire, 0));
    packed += extent.count;
  }
  if (slot) {
    publish(*totals_, round, plan.totals_out(), plan.totals_count(),
            round.report.weight * static_cast<double>(plan.size()));
  }
}

template <class T>
void MachineReducer<T>::collect(Round& round) {
  const Clock::Time start = round.options.clock->now();
  const GroupPlan& plan = round.plan;
  for (const Message& message : plan.totals_in()) {
    const Inbox inbox = receive(*totals_, round, message, 0);
    if (inbox.arrival)
      round.report.weight = inbox.arrival->header().weight / static_cast<double>(plan.size());
    double fill = static_cast<double>(plan.size()) / static_cast<double>(plan.mates().size());
    if (shares_rounding() && plan.flat()) fill /= static_cast<double>(plan.size());
    for (const Extent& extent : message.extents) {
      // Without the total, this machine's own mean stands in for it.
      const kernels::Source sum = sum_at(round, extent.first);
      const kernels::Source total =
          inbox.arrival ? inbox.at(extent.first, options_.wire) : weighted(sum, fill);
      write_mean(kCollect, round, extent, {total}, sum, inbox.arrival ? sent_at(round, extent.first) : sum);
    }
  }
  if (plan.mates().size() > 1) {
    share_results(round);
  } else {
    round.mean.push_back({{0, round.count}, at(round.to.data(), dtype_of<T>(), 0), {}});
  }
  round.report.waited += round.options.clock->now() - start;
}

template <class T>
void MachineReducer<T>::share_results(Round& round) {
  const GroupPlan& plan = round.plan;
  const Extent own = plan.own_shard();
  if (own.count > 0) {
    comm::PublishOptions publish{.bytes = bytes_of(result_type(), own.count),
                                 .codec = mark_of(round.report),
                                 .weight = round.report.weight};
    for (Rank mate : plan.mates()) {
      if (mate != round.options.self) publish.readers.push_back(round.options.members->at(mate));
    }
    results_->publish(round.options.version, publish);
    round.mean.push_back({own, at(results_->slot(round.options.version).data(), result_type(), 0), {}});
  }
  for (Rank mate : plan.mates()) {
    const Extent shard = plan.shard(mate);
    if (mate == round.options.self || shard.count == 0) continue;
    const WorkerId peer = round.options.members->at(mate);
    comm::Outcome outcome = results_->await(peer, round.options.version, round.options.deadline);
    if (auto* const arrival = std::get_if<comm::Arrival>(&outcome)) {
      round.report.bytes_read += arrival->header().bytes;
      round.report.weight = arrival->header().weight;
      note_mark(round.report, arrival->header().codec);
      const kernels::Source mean = at(arrival->data().data(), result_type(), 0);
      round.mean.push_back({shard, mean, std::move(*arrival)});
    } else {
      // Nobody else has this shard's mean: one's own part stays as it is.
      const double share = static_cast<double>(shard.count) / static_cast<double>(round.count);
      note_missed(round.report, outcome, peer, share);
      round.mean.push_back({shard, at(round.own.published, options_.wire, shard.first), {}});
    }
  }
}

template <class T>
void MachineReducer<T>::run(Round& round) {
  sum_inside(round);
  exchange(round);
  collect(round);
}

template <class T>
void MachineReducer<T>::copy_mean(const Round& round, std::span<T> to) {
  for (const MeanPart& part : round.mean) {
    kernels_[kCollect]->convert(to.data() + part.extent.first, dtype_of<T>(), part.mean.data, part.mean.type,
                                part.extent.count);
  }
}

template <class T>
RoundReport MachineReducer<T>::reduce(comm::Window& vectors, const graph::WorkerRound& round, const Own& own,
                                      const GatherOptions& options, std::span<T> to) {
  const auto work = begin(vectors, round, own, options, to.size());
  if (!work->to.empty()) work->to = to;
  run(*work);
  if (work->to.empty()) copy_mean(*work, to);
  return work->report;
}

template class MachineReducer<float>;
template class MachineReducer<double>;

}  // namespace kith::gossip
