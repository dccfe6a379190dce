#pragma once

#include <cstdint>

namespace kith::graph {

// A seeded pseudo-random permutation of 0..n-1 that can be evaluated and inverted at one point in constant
// memory: a Feistel network over the next power of four, walked along its cycle until it falls below n (under
// four steps on average).
class Permutation {
 public:
  // REQUIRES: n >= 1.
  Permutation(int n, std::uint64_t seed);

  // REQUIRES: 0 <= index < n.
  int at(int index) const;
  int index_of(int value) const;  // at(index_of(v)) == v

 private:
  std::uint32_t half(std::uint32_t value, int round) const;

  std::uint32_t n_;
  std::uint64_t seed_;
  int half_bits_;
};

}  // namespace kith::graph
