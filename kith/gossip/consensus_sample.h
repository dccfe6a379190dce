#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kith/base/dtype.h"
#include "kith/base/ids.h"

namespace kith::gossip {

// How far models lie apart, told from a sample of their elements: sums of half the squared differences
// between a worker's elements and its neighbours', scaled up to all elements of the buckets that were looked
// at. Half, because two models that lie around a mean are sqrt(2) times as far from each other as from it.
struct ConsensusSample {
  double squares = 0;
  // |sum_j w_ij x_j - x_i|^2: how far the round moves this worker's model. Of symmetric rounds that are all
  // the same (ring-static, not a round of pairs) its root mean square over the workers, Theta, bounds the
  // consensus distance before the round: Theta / 2 <= distance <= Theta / (1 - lambda_2).
  double moved = 0;
  std::size_t elements = 0;  // of the buckets that were looked at; 0: nothing was

  void add(const ConsensusSample& other) {
    squares += other.squares;
    moved += other.moved;
    elements += other.elements;
  }
  // The consensus distance of a model with that many parameters, as far as this worker can tell; nothing when
  // it has not looked. It stands for workers that lie around their mean without regard to each other: around
  // a ring, where neighbours are near each other, it is too small.
  std::optional<double> distance(std::size_t parameters) const {
    if (elements == 0) return std::nullopt;
    return std::sqrt(squares / static_cast<double>(elements) * static_cast<double>(parameters));
  }
};

// Against one worker's vector.
struct PeerSample {
  WorkerId peer;
  ConsensusSample apart;
};

// Against all together, and against each of them that is known apart.
struct NeighbourSample {
  ConsensusSample all;
  std::vector<PeerSample> peers;
};

// One vector in host memory, and what its elements are multiplied by.
struct SampledVector {
  const void* data = nullptr;
  DType type = DType::f32;
  double factor = 1;
  double weight = 0;  // in the round, for ConsensusSample::moved
};

// Compares `own` with each of `others`, all of `count` elements. Looks at 1024 elements at most, in runs that
// lie elsewhere for every `round`. Nothing without others. `each`, where it is not empty, has a sample for
// each of the others: it becomes what that one alone would give, but for `moved`.
ConsensusSample sample_consensus(SampledVector own, std::span<const SampledVector> others, std::size_t count,
                                 std::uint64_t round, std::span<ConsensusSample> each = {});

// The same where only the mean of `members` models is known, one's own among them.
ConsensusSample sample_consensus(SampledVector own, SampledVector mean, std::size_t members,
                                 std::size_t count, std::uint64_t round);

}  // namespace kith::gossip
