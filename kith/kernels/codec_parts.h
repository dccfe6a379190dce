#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kith/base/rng.h"

namespace kith::kernels {

// What host and device share of the codecs, so that a vector becomes the same message on both and a message
// the same numbers (kith/kernels/codec.h).
//
// A message, least bit first:
//   full       the elements
//   int8       kith/kernels/int8.h
//   qsgd       a float for each block of 64, then B bits for each element: the sign, and above it the level
//   sign       a float for each block of 1024, then a bit for each element: 1 where it is below 0
//   top-k      for each element kept, in the order of places: its place in 32 bits, the element as a float
//   random-k   a float for each element kept, in the order drawn
//
// A block of qsgd or sign that holds a NaN, or whose scale is no float, becomes NaNs.

inline constexpr std::size_t kQsgdBlock = 64;
inline constexpr std::size_t kSignBlock = 1024;
// Sums over a block have one order: a lane adds up four neighbours out of every 4 * lanes, in their order,
// and then the second half of the lanes is added to the first until one is left.
inline constexpr int kQsgdLanes = 16;
inline constexpr int kSignLanes = 32;

constexpr std::size_t blocks_of(std::size_t count, std::size_t size) {
  return (count + size - 1) / size;
}

// How many of `count` elements the share stands for: at least one.
std::size_t kept_of(double share, std::size_t count);

constexpr int qsgd_levels(int bits) {
  return (1 << (bits - 1)) - 1;
}

constexpr std::size_t qsgd_packed_bytes(std::size_t count, int bits) {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

// In [0, 1), by draw and element.
constexpr double uniform_at(std::uint64_t draw, std::size_t element) {
  return static_cast<double>(mix_bits(draw + element) >> 11) * 0x1.0p-53;
}

// REQUIRES: magnitude <= scale, or a scale that is NaN.
constexpr unsigned qsgd_code(double magnitude, bool negative, float scale, int levels, double uniform) {
  const double ratio = scale > 0 ? magnitude / static_cast<double>(scale) * levels : 0;
  const auto level = static_cast<unsigned>(ratio + uniform);
  const auto most = static_cast<unsigned>(levels);
  return ((level < most ? level : most) << 1) | (negative ? 1U : 0U);
}

template <class T>
constexpr T qsgd_unit(float scale, int levels) {
  return static_cast<T>(scale) / static_cast<T>(levels);
}

template <class T>
constexpr T qsgd_value(unsigned code, T unit) {
  const T magnitude = unit * static_cast<T>(code >> 1);
  return (code & 1U) != 0 ? -magnitude : magnitude;
}

constexpr float number_or_nan(float scale) {
  const float most = std::numeric_limits<float>::max();
  return scale <= most ? scale : std::bit_cast<float>(0x7fc00000U);
}

// The bits of a magnitude: ordered as magnitudes are, with infinity and NaN above all numbers.
constexpr std::uint32_t order_of(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}
constexpr std::uint64_t order_of(double value) {
  return std::bit_cast<std::uint64_t>(value) & 0x7fffffffffffffffULL;
}

// Of random-k: k in a row of an arithmetic progression modulo the count that visits all, so that every
// element is one of them with the probability k / d.
struct Progression {
  std::size_t first = 0;
  std::size_t stride = 1;

  constexpr std::size_t at(std::size_t k, std::size_t count) const {
    if (count >> 32 != 0) return static_cast<std::size_t>((first + static_cast<Uint128>(k) * stride) % count);
    return (first + k * stride) % count;
  }
};
// REQUIRES: count > 0.
Progression drawn_places(std::size_t count, std::uint64_t draw);

}  // namespace kith::kernels
