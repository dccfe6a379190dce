#include "kith/graph/permutation.h"

#include <bit>

#include "kith/base/rng.h"

namespace kith::graph {
namespace {

constexpr int kFeistelRounds = 6;

}  // namespace

Permutation::Permutation(int n, std::uint64_t seed) : n_(static_cast<std::uint32_t>(n)), seed_(seed) {
  half_bits_ = (static_cast<int>(std::bit_width(n_ - 1)) + 1) / 2;
}

std::uint32_t Permutation::half(std::uint32_t value, int round) const {
  return static_cast<std::uint32_t>(hash_words(seed_, round, value)) & ((1U << half_bits_) - 1);
}

int Permutation::at(int index) const {
  if (half_bits_ == 0) return index;
  auto x = static_cast<std::uint32_t>(index);
  do {
    std::uint32_t left = x >> half_bits_, right = x & ((1U << half_bits_) - 1);
    for (int round = 0; round < kFeistelRounds; ++round) {
      const std::uint32_t next = left ^ half(right, round);
      left = right;
      right = next;
    }
    x = left << half_bits_ | right;
  } while (x >= n_);
  return static_cast<int>(x);
}

int Permutation::index_of(int value) const {
  if (half_bits_ == 0) return value;
  auto x = static_cast<std::uint32_t>(value);
  do {
    std::uint32_t left = x >> half_bits_, right = x & ((1U << half_bits_) - 1);
    for (int round = kFeistelRounds; round-- > 0;) {
      const std::uint32_t previous = right ^ half(left, round);
      right = left;
      left = previous;
    }
    x = left << half_bits_ | right;
  } while (x >= n_);
  return static_cast<int>(x);
}

}  // namespace kith::graph
