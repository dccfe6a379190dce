#include "kith/gossip/gather.h"

#include <algorithm>
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
  return static_cast<const std::byte*>(data) + elements * size_of(type);
}

}  // namespace

kernels::Source Own::as_published(double source_weight) const {
  if (!apart()) return {values, type, source_weight};
  if (published) return {published, wire, source_weight};
  return {values, type, source_weight, nullptr, wire};
}

kernels::Mix Gathered::mix_from(std::size_t first, std::vector<kernels::Source>& scratch,
                                const void* own_values) const {
  scratch = sources_;
  for (kernels::Source& source : scratch)
    source.data = shifted(source.data, source.type, first);
  if (own_values) {
    for (const std::size_t k : own_)
      scratch[k].data = own_values;
  }
  return {scratch, scale_};
}

kernels::Mix Gathered::sum_from(std::size_t first, std::vector<kernels::Source>& scratch) const {
  scratch = published_;
  for (kernels::Source& source : scratch) {
    source.data = shifted(source.data, source.type, first);
    source.weight = 1;
  }
  return {scratch, 1};
}

// Where one's own values are what was published: scale * sum_j w_j x_j. Where they are not: scale *
// ((1/scale) x_i + sum_j w_j q_j - (1/scale) q_i), with one's own two q as one source at its rank; alone,
// nothing is left but x_i.
void Gathered::add_own(const Own& own, double weight, std::size_t place) {
  const auto at = static_cast<std::ptrdiff_t>(place);
  const double rest = own.apart() ? weight - 1 / scale_ : weight;
  published_ = sources_;
  published_.insert(published_.begin() + at, own.as_published(weight));
  if (!own.apart() || rest != 0) sources_.insert(sources_.begin() + at, own.as_published(rest));
  if (own.apart()) sources_.insert(sources_.begin(), {own.values, own.type, 1 / scale_});
  for (std::size_t k = 0; k < sources_.size(); ++k)
    if (sources_[k].data == own.values) own_.push_back(k);
}

void Gathered::read_copies(std::span<const void* const> places) {
  KITH_CHECK_EQ(places.size(), arrivals_.size(), "one copy per arrival");
  for (std::size_t k = 0; k < places.size(); ++k) {
    for (kernels::Source& source : sources_)
      if (source.data == arrivals_[k].data().data()) source.data = places[k];
  }
}

Gathered Gathered::of_mean(const void* mean, const Own& own, RoundReport report) {
  Gathered result;
  result.report_ = std::move(report);
  result.sources_ = {{mean, own.type, 1}};
  // x_i + (mean of what was published) - (what oneself published)
  if (own.apart()) result.add_own(own, 0, 1);
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
  result.scale_ = row.scale;
  RoundReport& report = result.report_;
  const Clock::Time begin = options.clock->now();

  double own_weight = 0, missing = 0, push_sum = 0;
  std::size_t own_place = 0;
  for (const graph::Term& term : row.terms) {
    if (term.rank == options.self) {
      own_weight = term.weight;
      own_place = result.sources_.size();
      continue;
    }
    const WorkerId peer = options.members->at(term.rank);
    comm::Outcome outcome = window.await(peer, options.version, options.deadline);
    if (auto* arrival = std::get_if<comm::Arrival>(&outcome)) {
      report.bytes_read += arrival->header().bytes;
      push_sum += term.weight * arrival->header().weight;
      result.sources_.push_back({arrival->data().data(), own.wire, term.weight});
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

}  // namespace kith::gossip
