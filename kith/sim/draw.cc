#include "kith/sim/draw.h"

#include <bit>

#include "kith/base/rng.h"
#include "kith/sim/vector_target.h"

namespace kith::sim {
namespace {

KITH_SIM_INLINE void values_body(const std::uint32_t* __restrict words, std::size_t count,
                                 const double* __restrict base, const double* __restrict slope,
                                 double* __restrict out) {
  constexpr int kShift = 52 - kBinBits;
  constexpr std::uint64_t kOne = 0x3ff0000000000000ULL;
  constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52) - 1;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(static_cast<std::int32_t>(words[i] & 0x7fffffffU)) + 0.5;
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const std::uint64_t bin = (bits >> kShift) - kFirstBin + std::uint64_t{words[i] >> 31} * kBins;
    const double inside = std::bit_cast<double>(((bits << kBinBits) & kMantissa) | kOne) - 1.0;
    const auto at = static_cast<std::int64_t>(bin);
    out[i] = base[at] + inside * slope[at];
  }
}

KITH_SIM_INLINE void words_body(std::uint64_t key, std::size_t pairs, std::uint32_t* __restrict words) {
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::uint64_t word = mix_bits(key + i);
    words[2 * i] = static_cast<std::uint32_t>(word);
    words[2 * i + 1] = static_cast<std::uint32_t>(word >> 32);
  }
}

KITH_SIM_AVX512 void values_avx512(const std::uint32_t* w, std::size_t n, const double* b, const double* s,
                                   double* o) {
  values_body(w, n, b, s, o);
}
KITH_SIM_AVX2 void values_avx2(const std::uint32_t* w, std::size_t n, const double* b, const double* s,
                               double* o) {
  values_body(w, n, b, s, o);
}
void values_plain(const std::uint32_t* w, std::size_t n, const double* b, const double* s, double* o) {
  values_body(w, n, b, s, o);
}

KITH_SIM_AVX512 void words_avx512(std::uint64_t key, std::size_t pairs, std::uint32_t* words) {
  words_body(key, pairs, words);
}
void words_plain(std::uint64_t key, std::size_t pairs, std::uint32_t* words) {
  words_body(key, pairs, words);
}

}  // namespace

void draw_values(const std::uint32_t* words, std::size_t count, const double* base, const double* slope,
                 double* out, VectorTarget target) {
  switch (target) {
    case VectorTarget::avx512:
      return values_avx512(words, count, base, slope, out);
    case VectorTarget::avx2:
      return values_avx2(words, count, base, slope, out);
    case VectorTarget::plain:
      return values_plain(words, count, base, slope, out);
  }
}

// AVX2 has no 64-bit multiply: there the plain loop is as good.
void draw_words(std::uint64_t key, std::size_t pairs, std::uint32_t* words, VectorTarget target) {
  if (target == VectorTarget::avx512) return words_avx512(key, pairs, words);
  words_plain(key, pairs, words);
}

}  // namespace kith::sim
