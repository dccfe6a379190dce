#include "kith/gossip/gather.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "kith/base/check.h"

namespace kith::gossip {
namespace {

// Weights before the common scale: a group counts everybody once and divides at the end.
struct Row {
  std::vector<graph::Term> terms;
  double scale = 1;
};

Row weighted_row(const graph::WorkerRound& round, Rank self) {
  Row row{graph::row_of(round, self), 1};
  if (round.form == graph::Form::group) {
    for (graph::Term& term : row.terms)
      term.weight = 1;
    row.scale = 1.0 / static_cast<double>(round.group.size());
  }
  return row;
}

const std::byte* shifted(const void* data, DType type, std::size_t elements) {
  KITH_CHECK_EQ(elements % block_of(type), std::size_t{0}, "a part of a vector begins with a block");
  return static_cast<const std::byte*>(data) + bytes_of(type, elements);
}

// The source from `elements` on.
void shift(kernels::Source& source, std::size_t elements) {
  source.data = shifted(source.data, source.type, elements);
  source.draw += elements;
}

}  // namespace

kernels::Source Own::as_published(double source_weight) const {
  if (!apart()) return {values, type, source_weight};
  if (published) return {published, wire, source_weight};
  return {values, type, source_weight, wire, draw};
}

void Gathered::Formula::find_own(const Own& own_part) {
  for (std::size_t k = 0; k < sources.size(); ++k)
    if (sources[k].data == own_part.values) own.push_back(k);
}

kernels::Mix Gathered::Formula::from(std::size_t first, std::vector<kernels::Source>& scratch,
                                     const void* own_values) const {
  scratch = sources;
  for (kernels::Source& source : scratch)
    shift(source, first);
  if (own_values) {
    for (const std::size_t k : own)
      scratch[k].data = own_values;
  }
  return {scratch, scale};
}

kernels::Mix Gathered::mix() const {
  KITH_CHECK(shards_.empty(), "one mix for all elements");
  return {formula_.sources, formula_.scale};
}

kernels::Mix Gathered::mix_from(std::size_t first, std::vector<kernels::Source>& scratch,
                                const void* own_values) const {
  for (const Shard& shard : shards_) {
    if (first >= shard.extent.first && first < shard.extent.end())
      return shard.formula.from(first - shard.extent.first, scratch, own_values);
  }
  return formula_.from(first, scratch, own_values);
}

std::size_t Gathered::end_from(std::size_t first) const {
  std::size_t end = std::numeric_limits<std::size_t>::max();
  for (const Shard& shard : shards_) {
    for (const std::size_t border : {shard.extent.first, shard.extent.end()})
      if (border > first) end = std::min(end, border);
  }
  return end;
}

void Gathered::read_shard(const Extent& shard, std::vector<kernels::Source> sources, const void* part,
                          std::optional<comm::Arrival> arrival, const Own& own, double scale) {
  Formula formula{std::move(sources), {}, scale};
  formula.find_own(own);
  for (kernels::Source& source : formula.sources)
    if (source.data != part) shift(source, shard.first);
  shards_.push_back({shard, std::move(formula), std::move(arrival)});
}

kernels::Mix Gathered::sum_from(std::size_t first, std::vector<kernels::Source>& scratch) const {
  scratch = published_;
  for (kernels::Source& source : scratch) {
    shift(source, first);
    source.weight = 1;
  }
  return {scratch, 1};
}

// Where one's own values are what was published: scale * sum_j w_j x_j. Where they are not: scale *
// ((1/scale) x_i + sum_j w_j q_j - (1/scale) q_i), with one's own two q as one source at its rank; alone,
// nothing is left but x_i.
void Gathered::add_own(const Own& own, double weight, std::size_t place) {
  const auto at = static_cast<std::ptrdiff_t>(place);
  std::vector<kernels::Source>& sources = formula_.sources;
  const double unit = 1 / formula_.scale;
  const double rest = own.apart() ? weight - unit : weight;
  published_ = sources;
  published_.insert(published_.begin() + at, own.as_published(weight));
  if (!own.apart() || rest != 0) sources.insert(sources.begin() + at, own.as_published(rest));
  if (own.apart()) sources.insert(sources.begin(), {own.values, own.type, unit});
  formula_.find_own(own);
}

void Gathered::read_copies(std::span<const void* const> places) {
  KITH_CHECK_EQ(places.size(), arrivals_.size(), "one copy per arrival");
  for (std::size_t k = 0; k < places.size(); ++k) {
    for (kernels::Source& source : formula_.sources)
      if (source.data == arrivals_[k].data().data()) source.data = places[k];
  }
}

Gathered Gathered::of_mean(std::vector<MeanPart> parts, const Own& own, RoundReport report) {
  Gathered result;
  result.report_ = std::move(report);
  for (MeanPart& part : parts) {
    std::vector<kernels::Source> sources{part.mean};
    // x_i + (mean of what was published) - (what oneself published)
    if (own.apart()) sources = {{own.values, own.type, 1}, part.mean, own.as_published(-1)};
    result.read_shard(part.extent, std::move(sources), part.mean.data, std::move(part.arrival), own, 1);
  }
  return result;
}

Gathered Gathered::of_sources(std::vector<kernels::Source> sources, const Own& own, double own_weight,
                              std::size_t place, RoundReport report) {
  Gathered result;
  result.report_ = std::move(report);
  result.formula_.sources = std::move(sources);
  result.add_own(own, own_weight, place);
  return result;
}

double kept_share(const comm::Transport& transport, const Members& members, const graph::WorkerRound& round,
                  Rank self) {
  double kept = 0;
  for (const graph::Term& share : graph::shares_of(round, self)) {
    if (transport.lost(members.at(share.rank))) kept += share.weight;
  }
  return kept;
}

Gathered gather(comm::Window& window, const graph::WorkerRound& round, const Own& own,
                const GatherOptions& options) {
  const Row row = weighted_row(round, options.self);
  Gathered result;
  result.formula_.scale = row.scale;
  RoundReport& report = result.report_;
  const Clock::Time begin = options.clock->now();

  double own_weight = 0, missing = 0, push_sum = 0;
  std::size_t own_place = 0;
  for (const graph::Term& term : row.terms) {
    if (term.rank == options.self) {
      own_weight = term.weight;
      own_place = result.formula_.sources.size();
      continue;
    }
    const WorkerId peer = options.members->at(term.rank);
    comm::Outcome outcome = window.await(peer, options.version, options.deadline);
    if (auto* arrival = std::get_if<comm::Arrival>(&outcome)) {
      report.bytes_read += arrival->header().bytes;
      report.read.push_back(peer);
      push_sum += term.weight * arrival->header().weight;
      result.formula_.sources.push_back({arrival->data().data(), own.wire, term.weight});
      result.arrivals_.push_back(std::move(*arrival));
      continue;
    }
    missing += term.weight;
    (std::holds_alternative<comm::Lost>(outcome) ? report.lost : report.late).push_back(peer);
  }
  report.waited = options.clock->now() - begin;
  report.missing_weight = missing * row.scale;

  own_weight += options.directed ? options.kept / row.scale : missing;
  report.weight = row.scale * (push_sum + own_weight * own.weight);

  result.add_own(own, own_weight, own_place);
  return result;
}

template <class T>
void mix_into(const kernels::Destination<T>& to, const Gathered& gathered, std::size_t count,
              kernels::Kernels<T>& kernels) {
  std::vector<kernels::Source> scratch;
  for (std::size_t first = 0; first < count;) {
    const std::size_t end = std::min(gathered.end_from(first), count);
    kernels::Destination<T> part = to;
    if (to.values) part.values = to.values + first;
    if (to.encoded) part.encoded = static_cast<std::byte*>(to.encoded) + bytes_of(to.encoded_type, first);
    part.draw += first;
    kernels.mix(part, gathered.mix_from(first, scratch), end - first);
    first = end;
  }
}

template void mix_into(const kernels::Destination<float>&, const Gathered&, std::size_t,
                       kernels::Kernels<float>&);
template void mix_into(const kernels::Destination<double>&, const Gathered&, std::size_t,
                       kernels::Kernels<double>&);

}  // namespace kith::gossip
