#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace kith::kernels {

// The 8-bit wire. Blocks of kInt8Block elements, counted from the start of the vector (a segment, say), share
// one scale: their greatest magnitude becomes 127, every element the product with the scale's inverse,
// rounded to nearest even. A block whose magnitudes are all below 127 * 2^-126 becomes zeros; one that holds
// a NaN or an infinity becomes NaNs. Every implementation gives exactly these bits.

inline constexpr std::size_t kInt8Block = 128;

constexpr std::size_t int8_blocks(std::size_t count) {
  return (count + kInt8Block - 1) / kInt8Block;
}

// The usual payload: the elements, then the scales from int8_scales_at(count) on; 3.88 times smaller than
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

}  // namespace kith::kernels
