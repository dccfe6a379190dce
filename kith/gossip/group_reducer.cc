#include "kith/gossip/group_reducer.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "kith/base/rng.h"
#include "kith/gossip/group_plan.h"
#include "kith/kernels/cpu/cpu_kernels.h"

namespace kith::gossip {
namespace {

// Below this the second hop costs more than it saves.
constexpr std::size_t kLeastBytes = 256 * 1024;

Extent shard(std::size_t total, std::size_t parts, std::size_t index, DType vectors) {
  return part_of({0, total}, parts, index, vectors);
}

template <class T>
comm::WindowOptions shard_window(const typename GroupReducer<T>::Options& options) {
  comm::WindowOptions window;
  window.name = options.name + "/shard";
  window.bytes = bytes_of(options.wire, shard(options.count, GroupReducer<T>::kLeast, 0, DType::i8).count);
  window.shape_digest = hash_words(options.count, options.wire);
  window.peers = options.peers;
  return window;
}

}  // namespace

template <class T>
GroupReducer<T>::GroupReducer(comm::Transport& transport, const Options& options)
    : kernels_(kernels::make_cpu_kernels<T>()),
      wire_(options.wire),
      shards_(transport.open(shard_window<T>(options), options.open_deadline)) {}

template <class T>
bool GroupReducer<T>::pays(const graph::WorkerRound& round, std::size_t count, std::size_t least) {
  return round.form == graph::Form::group && round.group.size() >= least && count * sizeof(T) >= kLeastBytes;
}

template <class T>
bool GroupReducer<T>::pays(const graph::Schedule& schedule, std::size_t count, std::size_t least) {
  if (count * sizeof(T) < kLeastBytes) return false;
  for (std::int64_t t = 0; t < schedule.period(); ++t) {
    for (Rank rank = 0; rank < schedule.workers(); ++rank)
      if (pays(schedule.round(rank, t), count, least)) return true;
  }
  return false;
}

template <class T>
void GroupReducer<T>::sum(Gathered& gathered, const graph::WorkerRound& round, const Own& own,
                          std::size_t count, const GatherOptions& options) {
  const std::size_t size = round.group.size();
  const auto whole = static_cast<double>(size);
  // What travels is the sum, scaled by the reader; rounded, it is the mean, so that 16 bits hold its range.
  const bool rounds = wire_ != dtype_of<T>();
  const double unit = rounds ? 1 / whole : 1;
  RoundReport report = gathered.report();
  std::vector<kernels::Source> scratch;

  // Hop 1: the sum of one's own shard; what a lossy wire adds about oneself is left to the readers.
  const auto mine = static_cast<std::size_t>(std::find(round.group.begin(), round.group.end(), options.self) -
                                             round.group.begin());
  const std::size_t present = size - report.late.size() - report.lost.size();
  comm::PublishOptions publish;
  for (Rank rank : round.group) {
    if (rank != options.self) publish.readers.push_back(options.members->at(rank));
  }
  auto slot = shards_->begin(options.version, options.deadline);
  const bool offered = std::holds_alternative<std::span<std::byte>>(slot);
  const Extent own_range = shard(count, size, mine, own.wire);
  std::byte* const own_sum = shards_->slot(options.version).data();
  // Of the gathered models only ranges are read: one's own shard, and those that nobody else sums.
  const auto read = [&](const Extent& range) { return (present - 1) * bytes_of(own.wire, range.count); };
  report.bytes_read = 0;
  if (offered) {
    report.bytes_read += read(own_range);
    kernels::Mix sum = gathered.sum_from(own_range.first, scratch);
    sum.scale = unit;
    const kernels::Destination<T> place = rounds ? kernels::Destination<T>{nullptr, own_sum, wire_}
                                                 : kernels::Destination<T>{reinterpret_cast<T*>(own_sum)};
    if (own_range.count > 0) kernels_->mix(place, sum, own_range.count);
    publish.bytes = bytes_of(wire_, own_range.count);
    publish.weight = static_cast<double>(present);
    publish.codec = mark_of(report);
    shards_->publish(options.version, publish);
  }

  // Hop 2: everybody's sums.
  const Clock::Time begin = options.clock->now();
  for (std::size_t k = 0; k < size; ++k) {
    const Extent range = shard(count, size, k, own.wire);
    const std::byte* sum = k == mine && offered ? own_sum : nullptr;
    double summed = static_cast<double>(present);
    comm::Outcome outcome = comm::Lost{};
    if (k != mine) {
      outcome = shards_->await(options.members->at(round.group[k]), options.version, options.deadline);
      if (const auto* arrival = std::get_if<comm::Arrival>(&outcome)) {
        sum = arrival->data().data();
        summed = arrival->header().weight;
        note_mark(report, arrival->header().codec);
        report.bytes_read += arrival->header().bytes;
      }
    }
    if (range.count == 0) continue;
    if (sum == nullptr) {
      report.bytes_read += read(range);
      continue;
    }
    scratch.assign(1, {sum, wire_, 1});
    if (summed < whole) scratch.push_back(own.as_published((whole - summed) * unit));
    if (own.apart()) {
      scratch.push_back({own.values, own.type, whole});
      scratch.push_back(own.as_published(-whole));
    }
    auto* const arrival = std::get_if<comm::Arrival>(&outcome);
    gathered.read_shard(range, scratch, sum, arrival ? std::optional(std::move(*arrival)) : std::nullopt, own,
                        rounds ? 1 : 1 / whole);
  }
  report.waited += options.clock->now() - begin;
  gathered.set_report(std::move(report));
}

template class GroupReducer<float>;
template class GroupReducer<double>;

}  // namespace kith::gossip
