#pragma once

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "kith/kernels/cuda/table.h"
#include "kith/kernels/half.h"
#include "kith/kernels/int8.h"

namespace kith::kernels::cuda {

// How the 128 elements of a block lie in the lanes of a warp. Wide: four neighbours in each lane, up to 16
// bytes an access. Strided: lane, lane + 32, ...; any alignment and any number of elements, and still whole
// lines.
enum class Order { wide, strided };

struct BlockLane {
  std::size_t first;  // of the block in its vector
  int lane;
  int valid;  // elements of the block; kBlock in wide order

  template <Order kOrder>
  __device__ int at(int k) const {
    return kOrder == Order::wide ? 4 * lane + k : lane + kWarp * k;
  }
  template <Order kOrder>
  __device__ bool has(int k) const {
    return kOrder == Order::wide || at<kOrder>(k) < valid;
  }
};

// What was loaded and is not converted yet, so that many loads are under way before the first is needed.
template <class T>
struct Raw;
template <>
struct Raw<float> {
  std::uint32_t word[4];
};
template <>
struct Raw<double> {
  double value[4];
};

template <class Word>
__device__ Word word_at(const void* data, std::size_t i) {
  return static_cast<const Word*>(data)[i];
}

// Of the wire int8: the bytes of the block, and its scale behind them.
__device__ inline const std::byte* int8_block(const void* data, const BlockLane& p) {
  return static_cast<const std::byte*>(data) + p.first / kInt8Block * kInt8BlockBytes;
}
__device__ inline const float* scale_place(const void* data, const BlockLane& p) {
  return reinterpret_cast<const float*>(int8_block(data, p) + kInt8Block);
}

template <Order kOrder>
__device__ Raw<float> fetch_words(const void* data, DType type, const BlockLane& p) {
  Raw<float> raw{};
  if constexpr (kOrder == Order::wide) {
    const std::size_t i = p.first / 4 + static_cast<std::size_t>(p.lane);
    if (type == DType::f32) {
      const auto four = word_at<uint4>(data, i);
      raw.word[0] = four.x;
      raw.word[1] = four.y;
      raw.word[2] = four.z;
      raw.word[3] = four.w;
    } else if (type == DType::bf16 || type == DType::f16) {
      const auto two = word_at<uint2>(data, i);
      raw.word[0] = two.x;
      raw.word[1] = two.y;
    } else if (type == DType::i8) {
      raw.word[0] = word_at<std::uint32_t>(int8_block(data, p), static_cast<std::size_t>(p.lane));
    } else {
      const auto low = word_at<double2>(data, 2 * i);
      const auto high = word_at<double2>(data, 2 * i + 1);
      raw.word[0] = __float_as_uint(static_cast<float>(low.x));
      raw.word[1] = __float_as_uint(static_cast<float>(low.y));
      raw.word[2] = __float_as_uint(static_cast<float>(high.x));
      raw.word[3] = __float_as_uint(static_cast<float>(high.y));
    }
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (!p.has<kOrder>(k)) continue;
      const std::size_t i = p.first + static_cast<std::size_t>(p.at<kOrder>(k));
      if (type == DType::f32) {
        raw.word[k] = word_at<std::uint32_t>(data, i);
      } else if (type == DType::bf16 || type == DType::f16) {
        raw.word[k] = word_at<std::uint16_t>(data, i);
      } else if (type == DType::i8) {
        raw.word[k] = word_at<std::uint8_t>(int8_block(data, p), static_cast<std::size_t>(p.at<kOrder>(k)));
      } else {
        raw.word[k] = __float_as_uint(static_cast<float>(word_at<double>(data, i)));
      }
    }
  }
  return raw;
}

template <Order kOrder>
__device__ void convert_words(const Raw<float>& raw, DType type, float scale, float (&x)[4]) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const auto half =
        static_cast<std::uint16_t>(kOrder == Order::wide ? raw.word[k / 2] >> (16 * (k % 2)) : raw.word[k]);
    if (type == DType::bf16) {
      x[k] = float_from_bf16(half);
    } else if (type == DType::f16) {
      x[k] = float_from_f16(half);
    } else if (type == DType::i8) {
      const std::uint32_t byte = kOrder == Order::wide ? raw.word[0] >> (8 * k) : raw.word[k];
      x[k] = float_from_int8(static_cast<std::int8_t>(byte), scale);
    } else {
      x[k] = __uint_as_float(raw.word[k]);
    }
  }
}

template <class T, Order kOrder>
__device__ Raw<T> fetch(const void* data, DType type, const BlockLane& p) {
  if constexpr (sizeof(T) == 4) {
    return fetch_words<kOrder>(data, type, p);
  } else {
    Raw<double> raw{};
    if (type == DType::f64) {
      if constexpr (kOrder == Order::wide) {
        const std::size_t i = p.first / 2 + 2 * static_cast<std::size_t>(p.lane);
        const auto low = word_at<double2>(data, i);
        const auto high = word_at<double2>(data, i + 1);
        raw.value[0] = low.x;
        raw.value[1] = low.y;
        raw.value[2] = high.x;
        raw.value[3] = high.y;
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (p.has<kOrder>(k))
            raw.value[k] = word_at<double>(data, p.first + static_cast<std::size_t>(p.at<kOrder>(k)));
      }
      return raw;
    }
    // An i8 source has no scale yet: its values stay whole numbers until convert() knows it.
    float x[4];
    convert_words<kOrder>(fetch_words<kOrder>(data, type, p), type, 1.0F, x);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      raw.value[k] = x[k];
    return raw;
  }
}

template <class T, Order kOrder>
__device__ void convert(const Raw<T>& raw, DType type, float scale, T (&x)[4]) {
  if constexpr (sizeof(T) == 4) {
    convert_words<kOrder>(raw, type, scale, x);
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      x[k] =
          type == DType::i8 ? float_from_int8(static_cast<std::int32_t>(raw.value[k]), scale) : raw.value[k];
  }
}

// The same for every lane; lanes without an element bring zeros.
template <class T>
__device__ Int8Scale scale_of_block(const T (&x)[4]) {
  std::uint32_t greatest = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k)
    greatest = max(greatest, magnitude_bits(static_cast<float>(x[k])));
  const auto warp = cooperative_groups::tiled_partition<kWarp>(cooperative_groups::this_thread_block());
  return int8_wire_scale(
      cooperative_groups::reduce(warp, greatest, cooperative_groups::greater<std::uint32_t>()));
}

// The codes of a block; every lane has its four.
template <class T, Order kOrder>
__device__ Int8Scale codes_of_block(const T (&x)[4], std::uint64_t draw, const BlockLane& p,
                                    std::int32_t (&codes)[4]) {
  const Int8Scale s = scale_of_block(x);
  std::uint32_t draws = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::size_t at = p.first + static_cast<std::size_t>(p.at<kOrder>(k));
    if (kOrder == Order::strided || k == 0) draws = int8_draws(draw, at / 4 * 4);
    codes[k] =
        int8_dithered(static_cast<float>(x[k]), s.inverse, int8_dither(draws, static_cast<int>(at % 4)));
  }
  return s;
}

template <class T>
__device__ std::uint16_t half_bits(T x, DType type) {
  if constexpr (sizeof(T) == 4) {
    return type == DType::bf16 ? bf16_from_float(x) : f16_from_float(x);
  } else {
    return type == DType::bf16 ? bf16_from_double(x) : f16_from_double(x);
  }
}

// REQUIRES: all lanes of the warp take part.
template <class T, Order kOrder>
__device__ void round_to(DType type, std::uint64_t draw, const BlockLane& p, T (&x)[4]) {
  if (type == DType::i8) {
    std::int32_t codes[4];
    const Int8Scale s = codes_of_block<T, kOrder>(x, draw, p, codes);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      x[k] = float_from_int8(codes[k], s.scale);
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::uint16_t bits = half_bits(x[k], type);
    x[k] = type == DType::bf16 ? float_from_bf16(bits) : float_from_f16(bits);
  }
}

template <class T, Order kOrder>
__device__ void store(const T (&x)[4], T* data, const BlockLane& p) {
  T* const to = data + p.first;
  if constexpr (kOrder == Order::strided) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (p.has<kOrder>(k)) to[p.at<kOrder>(k)] = x[k];
  } else if constexpr (sizeof(T) == 4) {
    reinterpret_cast<float4*>(to)[p.lane] = make_float4(x[0], x[1], x[2], x[3]);
  } else {
    reinterpret_cast<double2*>(to)[2 * p.lane] = make_double2(x[0], x[1]);
    reinterpret_cast<double2*>(to)[2 * p.lane + 1] = make_double2(x[2], x[3]);
  }
}

// Writes x in an encoding. REQUIRES: for i8 all lanes of the warp take part; lanes without an element bring
// zeros, and so a short block is filled up.
template <class T, Order kOrder>
__device__ void store_encoded(const T (&x)[4], void* data, DType type, std::uint64_t draw,
                              const BlockLane& p) {
  if (type == DType::i8) {
    std::int32_t codes[4];
    const Int8Scale s = codes_of_block<T, kOrder>(x, draw, p, codes);
    auto* const block = const_cast<std::byte*>(int8_block(data, p));
    if (p.lane == 0) *reinterpret_cast<float*>(block + kInt8Block) = s.scale;
    std::uint32_t packed = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const auto byte = static_cast<std::uint8_t>(p.has<kOrder>(k) ? codes[k] : 0);
      packed |= static_cast<std::uint32_t>(byte) << (8 * k);
      if (kOrder == Order::strided) reinterpret_cast<std::uint8_t*>(block)[p.at<kOrder>(k)] = byte;
    }
    if (kOrder == Order::wide) reinterpret_cast<std::uint32_t*>(block)[p.lane] = packed;
    return;
  }
  if (type == dtype_of<T>()) return store<T, kOrder>(x, static_cast<T*>(data), p);
  std::uint16_t bits[4];
#pragma unroll
  for (int k = 0; k < 4; ++k)
    bits[k] = half_bits(x[k], type);
  if constexpr (kOrder == Order::wide) {
    const auto two = [](std::uint32_t low, std::uint32_t high) { return low | high << 16; };
    static_cast<uint2*>(data)[p.first / 4 + p.lane] =
        make_uint2(two(bits[0], bits[1]), two(bits[2], bits[3]));
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (p.has<kOrder>(k)) static_cast<std::uint16_t*>(data)[p.first + p.at<kOrder>(k)] = bits[k];
  }
}

}  // namespace kith::kernels::cuda
