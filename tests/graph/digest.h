#pragma once

#include <bit>
#include <cstdint>

#include "kith/base/rng.h"
#include "kith/graph/schedule.h"

namespace kith::graph {

// Folds every round of a period, weights bit for bit, into one number.
inline std::uint64_t digest_of(const Schedule& schedule) {
  std::uint64_t digest = hash_words(schedule.period(), schedule.workers());
  for (std::int64_t t = 0; t < schedule.period(); ++t) {
    for (Rank rank = 0; rank < schedule.workers(); ++rank) {
      const WorkerRound round = schedule.round(rank, t);
      for (const Term& term : row_of(round, rank)) {
        digest = hash_words(digest, term.rank, std::bit_cast<std::uint64_t>(term.weight));
      }
      for (Rank reader : readers_of(round, rank))
        digest = hash_words(digest, reader);
    }
  }
  return digest;
}

}  // namespace kith::graph
