#include "kith/graph/schedule.h"

#include <algorithm>

namespace kith::graph {
namespace {

std::vector<Rank> without(const std::vector<Rank>& ranks, Rank self) {
  std::vector<Rank> rest;
  rest.reserve(ranks.size());
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(rest), [&](Rank r) { return r != self; });
  return rest;
}

}  // namespace

std::vector<Term> row_of(const WorkerRound& round, Rank self) {
  std::vector<Term> row;
  if (round.form == Form::group) {
    const double weight = 1.0 / static_cast<double>(round.group.size());
    for (Rank member : round.group)
      row.push_back({member, weight});
    return row;
  }
  row = round.reads;
  const auto after = std::find_if(row.begin(), row.end(), [&](const Term& term) { return term.rank > self; });
  row.insert(after, {self, round.self_weight});
  return row;
}

std::vector<Rank> reads_of(const WorkerRound& round, Rank self) {
  if (round.form == Form::group) return without(round.group, self);
  std::vector<Rank> ranks;
  ranks.reserve(round.reads.size());
  for (const Term& term : round.reads)
    ranks.push_back(term.rank);
  return ranks;
}

std::vector<Rank> readers_of(const WorkerRound& round, Rank self) {
  return round.form == Form::group ? without(round.group, self) : round.readers;
}

std::vector<Term> shares_of(const WorkerRound& round, Rank self) {
  std::vector<Term> shares;
  const std::vector<Rank> readers = readers_of(round, self);
  for (std::size_t k = 0; k < readers.size(); ++k) {
    const double weight =
        round.form == Form::group ? 1.0 / static_cast<double>(round.group.size()) : round.shares.at(k);
    shares.push_back({readers[k], weight});
  }
  return shares;
}

}  // namespace kith::graph
