#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kith {

// Element types of parameters and of wires. i8 is for wires only: its scales lie beside it
// (kith/kernels/int8.h).
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
