#pragma once

#include <cstddef>
#include <cstdint>

#include "kith/sim/vector_target.h"

namespace kith::sim {

// The bins of a QuantileTable. A 32-bit word is one bit of side and 31 bits k; x = k + 1/2 lies in octaves
// 2^-1 .. 2^30, each cut into 32 bins, so that a bin's index and the position inside it are bits of the
// double x.
inline constexpr int kBinBits = 5;
inline constexpr int kOctaves = 32;
inline constexpr std::size_t kBins = std::size_t{kOctaves} << kBinBits;
inline constexpr std::uint64_t kFirstBin = std::uint64_t{1022} << kBinBits;  // the biased exponent of 1/2

// The inner loops of QuantileTable, compiled for several instruction sets; all give the same bits.
// A target that the processor does not have may not be asked for.
// REQUIRES: count a multiple of 8.
void draw_values(const std::uint32_t* words, std::size_t count, const double* base, const double* slope,
                 double* out, VectorTarget target = vector_target());
void draw_words(std::uint64_t key, std::size_t pairs, std::uint32_t* words,
                VectorTarget target = vector_target());

}  // namespace kith::sim
