#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace kith::kernels {

// The bits of 16-bit floating-point numbers, to and from float and double, one element at a time. Narrowing
// rounds once, to nearest even, from either type; it overflows to infinity, keeps subnormals, and makes every
// NaN quiet. Every path of every kernel gives exactly these bits.

constexpr float float_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

constexpr std::uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

constexpr float float_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t magnitude = bits & 0x7fffU;
  if (magnitude < 0x0400U) {  // subnormal: a multiple of 2^-24
    return std::bit_cast<float>(sign |
                                std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1.0p-24F));
  }
  const std::uint32_t rebias = magnitude < 0x7c00U ? 0x38000000U : 0x70000000U;
  return std::bit_cast<float>(sign | ((magnitude << 13) + rebias));
}

constexpr std::uint16_t f16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000U) {
    half = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
  } else if (magnitude >= 0x47800000U) {  // 65536 and up
    half = 0x7c00U;
  } else if (magnitude >= 0x38800000U) {  // 2^-14 and up: normal; a carry may reach infinity
    half = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13;
  } else {  // 0.5 has a last place of 2^-24, so the addition rounds to the subnormal grid
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  }
  return static_cast<std::uint16_t>(sign | half);
}

// The float next to `value` towards zero, with its last bit set when inexact (round to odd): narrowing it
// further to nearest even gives what one rounding from double would.
constexpr float float_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  if (back == value || value != value) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if ((back < 0 ? -back : back) > (value < 0 ? -value : value)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

constexpr std::uint16_t bf16_from_double(double value) {
  return bf16_from_float(float_to_odd(value));
}
constexpr std::uint16_t f16_from_double(double value) {
  return f16_from_float(float_to_odd(value));
}

}  // namespace kith::kernels
