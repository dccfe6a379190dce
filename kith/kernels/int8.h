#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kith/base/dtype.h"

namespace kith::kernels {

// Eight bits an element, for differences (the codec int8) and for whole models (the wire int8, DType::i8).
// Blocks of kInt8Block elements, counted from the start of the vector (a segment, say), share one scale. A
// block whose magnitudes are all tiny (below 126 * 2^-126) becomes zeros; one that holds a NaN or an infinity
// becomes NaNs. Every implementation gives exactly these bits.

inline constexpr std::size_t kInt8Block = block_of(DType::i8);

// ---- the codec
//
// The greatest magnitude of a block becomes 127, every element the product with the scale's inverse, rounded
// to nearest even.

constexpr std::size_t int8_blocks(std::size_t count) {
  return (count + kInt8Block - 1) / kInt8Block;
}

// A message: the elements, then the scales from int8_scales_at(count) on; 3.88 times smaller than
// floats from a few thousand elements on.
constexpr std::size_t int8_scales_at(std::size_t count) {
  return (count + 15) / 16 * 16;
}
constexpr std::size_t int8_bytes(std::size_t count) {
  return int8_scales_at(count) + int8_blocks(count) * sizeof(float);
}

struct Int8Scale {
  float scale = 0;    // what a reader multiplies by
  float inverse = 0;  // what the writer multiplies by; 0: every element becomes 0
};

// The bits of |value|, whose greatest over a block is what int8_scale wants: they are ordered as the
// magnitudes are, with infinity and NaN above all numbers.
constexpr std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

constexpr Int8Scale int8_scale(std::uint32_t greatest) {
  if (greatest >= 0x7f800000U) return {std::bit_cast<float>(0x7fc00000U), 0};
  const float scale = std::bit_cast<float>(greatest) / 127.0F;
  if (scale < 0x1.0p-126F) return {};
  return {scale, 1.0F / scale};
}

constexpr std::int32_t int8_from_float(float value, float inverse) {
  if (inverse == 0) return 0;
  // 1.5 * 2^23 has a last place of 1, so the addition rounds to an integer.
  const float product = value * inverse;
  const float shifted = product + 12582912.0F;
  return static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4b400000U);
}

constexpr float float_from_int8(std::int32_t value, float scale) {
  return static_cast<float>(value) * scale;
}

// ---- the wire
//
// A block lies in memory as its 128 bytes and, behind them, its scale: any range of whole blocks is a
// message. A short last block is filled up with zeros.
//
// Note [Dither]
// On a wire x_i <- x_i + sum_j w_ij (q_j - q_i). Rounded to the nearest, two models less than a quantum apart
// may have the same q for good: whatever pulls them apart, different data say, pulls until they differ by a
// whole quantum, always to the same side. So a draw from (-1/2, 1/2) of a quantum is added before the
// rounding, and the mean of q is x: models are still about half a quantum apart, but to changing sides, and
// on average over steps they are where the full wire has them.
//
// The draw is the same for all workers, a function of the channel, the version and the element: runs repeat
// and resume bit for bit, nobody sends a seed, and equal models stay equal. It also makes the least noise: of
// two elements that lie d quanta apart the codes differ by floor(d) or floor(d) + 1, so the error of q_j -
// q_i has the variance f (1 - f), f the fraction of d, and vanishes with d. Draws of one's own would leave
// 1/3 on average. This asks for equal scales on both sides: a scale is rounded up to three bits behind its
// first, so that blocks of models that are near each other mostly have the same one, at 6% of the resolution
// on average.
//
// Four bits would fit the same code and are left out: half a quantum is then 1/14 of a block's greatest
// weight, more than a worker's own steps. Codecs send differences in as few bits without that.

inline constexpr std::size_t kInt8BlockBytes = bytes_of(DType::i8, kInt8Block);

constexpr Int8Scale int8_wire_scale(std::uint32_t greatest) {
  if (greatest >= 0x7f800000U) return {std::bit_cast<float>(0x7fc00000U), 0};
  // With 126 no draw leads beyond 127.
  const float scale = std::bit_cast<float>(greatest) / 126.0F;
  if (scale < 0x1.0p-126F) return {};
  const float rounded = std::bit_cast<float>((std::bit_cast<std::uint32_t>(scale) + 0xfffffU) & ~0xfffffU);
  return {rounded, 1.0F / rounded};
}

// The draws of the four elements that begin at `first`, 8 bits each: a 256th of a quantum is fine enough, and
// one hash of 32 bits (C. Wellons' lowbias32) costs a GPU and vector units little. A vector that begins at
// element k of another has its draws with `draw` + k.
constexpr std::uint32_t int8_draws(std::uint64_t draw, std::size_t first) {
  const std::uint64_t place = draw + first;
  auto x = static_cast<std::uint32_t>(place) ^ static_cast<std::uint32_t>(place >> 32);
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

// Draw k of four, in quanta: above -1/2, below 1/2.
constexpr float int8_dither(std::uint32_t draws, int k) {
  const auto bits = static_cast<std::int32_t>((draws >> (8 * k)) & 0xffU);
  return static_cast<float>(2 * bits - 255) * 0x1.0p-9F;
}

constexpr std::int32_t int8_dithered(float value, float inverse, float dither) {
  if (inverse == 0) return 0;
  const float product = value * inverse;
  const float drawn = product + dither;
  const float shifted = drawn + 12582912.0F;
  return static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4b400000U);
}

}  // namespace kith::kernels
