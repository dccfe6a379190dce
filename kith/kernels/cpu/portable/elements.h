#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kith/base/dtype.h"
#include "kith/kernels/half.h"

namespace kith::kernels {

template <class T, class Word, class Widen>
void widen_all(const void* from, std::size_t begin, std::size_t count, T* to, Widen widen) {
  const Word* words = static_cast<const Word*>(from) + begin;
  for (std::size_t i = 0; i < count; ++i)
    to[i] = static_cast<T>(widen(words[i]));
}

template <class T, class Word, class Narrow>
void narrow_all(const T* from, std::size_t count, void* to, std::size_t begin, Narrow narrow) {
  Word* words = static_cast<Word*>(to) + begin;
  for (std::size_t i = 0; i < count; ++i)
    words[i] = static_cast<Word>(narrow(from[i]));
}

// Elements begin .. begin + count of `from`, as T. Not of i8, which cpu/staging.h decodes.
template <class T>
void load_elements(const void* from, DType type, std::size_t begin, std::size_t count, T* to) {
  const auto same = [](auto x) { return x; };
  switch (type) {
    case DType::f32:
      return widen_all<T, float>(from, begin, count, to, same);
    case DType::f64:
      return widen_all<T, double>(from, begin, count, to, same);
    case DType::bf16:
      return widen_all<T, std::uint16_t>(from, begin, count, to, float_from_bf16);
    case DType::f16:
      return widen_all<T, std::uint16_t>(from, begin, count, to, float_from_f16);
    case DType::i8:
      break;
  }
}

// The opposite, rounding once to nearest even.
template <class T>
void store_elements(const T* from, std::size_t count, void* to, DType type, std::size_t begin) {
  constexpr bool kWide = std::is_same_v<T, double>;
  const auto same = [](auto x) { return x; };
  const auto to_bf16 = [](T x) {
    return kWide ? bf16_from_double(x) : bf16_from_float(static_cast<float>(x));
  };
  const auto to_f16 = [](T x) { return kWide ? f16_from_double(x) : f16_from_float(static_cast<float>(x)); };
  switch (type) {
    case DType::f32:
      return narrow_all<T, float>(from, count, to, begin, same);
    case DType::f64:
      return narrow_all<T, double>(from, count, to, begin, same);
    case DType::bf16:
      return narrow_all<T, std::uint16_t>(from, count, to, begin, to_bf16);
    case DType::f16:
      return narrow_all<T, std::uint16_t>(from, count, to, begin, to_f16);
    case DType::i8:
      break;
  }
}

}  // namespace kith::kernels
