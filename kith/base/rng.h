#pragma once

#include <cstdint>

namespace kith {

__extension__ using Uint128 = unsigned __int128;

// splitmix64: one 64-bit word to another, bijective and well mixed. The building block of every seeded draw,
// so that all workers and all machines draw the same numbers.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Folds words into one seed: hash(seed, round, rank).
template <class... Words>
constexpr std::uint64_t hash_words(Words... words) {
  std::uint64_t h = 0x6b697468ULL;  // "kith"
  ((h = mix_bits(h ^ static_cast<std::uint64_t>(words))), ...);
  return h;
}

// A small counter-based generator; the same sequence on every platform, unlike std distributions.
class Rng {
 public:
  explicit constexpr Rng(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t next() { return mix_bits(state_++); }
  // Uniform in [0, 1) with 53 bits.
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // Uniform in [0, bound), bound > 0 (Lemire's multiply-shift; bias below 2^-32 for bounds under 2^32).
  constexpr std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<Uint128>(next()) * bound) >> 64);
  }
  // Standard normal (Box-Muller, one of the pair).
  double normal();

 private:
  std::uint64_t state_;
};

}  // namespace kith
