#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kith {

// Element types of parameters and of wires. i8 is for wires only: blocks of elements share a scale that lies
// behind them (kith/kernels/int8.h).
enum class DType : std::uint8_t { f32, f64, bf16, f16, i8 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::f64:
      return 8;
    case DType::f32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::i8:
      return 1;
  }
  return 0;
}

// Elements that lie together: a vector is cut, and its parts begin, at multiples of it.
constexpr std::size_t block_of(DType type) {
  return type == DType::i8 ? 128 : 1;
}

// Of `count` elements in memory; of i8 in whole blocks, each with its scale. Also where element `count` lies,
// if that begins a block.
constexpr std::size_t bytes_of(DType type, std::size_t count) {
  if (type != DType::i8) return count * size_of(type);
  constexpr std::size_t kBlock = block_of(DType::i8);
  return (count + kBlock - 1) / kBlock * (kBlock + sizeof(float));
}

// `count`, or a little more: whole blocks.
constexpr std::size_t whole_blocks(DType type, std::size_t count) {
  return (count + block_of(type) - 1) / block_of(type) * block_of(type);
}

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::f64:
      return "fp64";
    case DType::f32:
      return "fp32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "fp16";
    case DType::i8:
      return "int8";
  }
  return "?";
}

// "fp32", "fp64", "bf16", "fp16"; InputError naming `place` otherwise.
DType parse_dtype(std::string_view text, std::string_view place);
// The same, or "int8".
DType parse_wire(std::string_view text, std::string_view place);

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}

}  // namespace kith
