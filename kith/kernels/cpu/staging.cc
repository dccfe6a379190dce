#include "kith/kernels/cpu/staging.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kith/kernels/int8.h"

namespace kith::kernels {
namespace {

constexpr std::size_t kTile = 8 * kInt8Block;

template <class T>
Int8Scale scale_of(const T* values, std::size_t count) {
  std::uint32_t greatest = 0;
  for (std::size_t i = 0; i < count; ++i)
    greatest = std::max(greatest, magnitude_bits(static_cast<float>(values[i])));
  return int8_wire_scale(greatest);
}

// Calls visit(first, count) for every block.
template <class Visit>
void for_blocks(std::size_t count, const Visit& visit) {
  for (std::size_t first = 0; first < count; first += kInt8Block)
    visit(first, std::min(kInt8Block, count - first));
}

using Codes = std::array<std::int8_t, kInt8Block>;

// A block of at most kInt8Block values, filled up with zeros; `first` is the draw of its first element.
template <class T>
float encode_block(const T* values, std::size_t count, std::uint64_t first, Codes& codes) {
  std::array<float, kInt8Block> block{};
  for (std::size_t i = 0; i < count; ++i)
    block[i] = static_cast<float>(values[i]);
  const Int8Scale s = scale_of(block.data(), kInt8Block);
  for (std::size_t i = 0; i < kInt8Block; i += 4) {
    const std::uint32_t draws = int8_draws(first, i);
    for (int k = 0; k < 4; ++k) {
      const std::size_t at = i + static_cast<std::size_t>(k);
      codes[at] = static_cast<std::int8_t>(int8_dithered(block[at], s.inverse, int8_dither(draws, k)));
    }
  }
  std::fill(codes.begin() + static_cast<std::ptrdiff_t>(count), codes.end(), std::int8_t{0});
  return s.scale;
}

template <class T>
void decode_block(const Codes& codes, float scale, std::size_t count, T* values) {
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<T>(float_from_int8(codes[i], scale));
}

template <class T>
void encode(const T* values, std::size_t count, std::uint64_t draw, std::byte* to) {
  for_blocks(count, [&](std::size_t first, std::size_t n) {
    Codes codes;
    const float scale = encode_block(values + first, n, draw + first, codes);
    std::byte* const block = to + bytes_of(DType::i8, first);
    std::memcpy(block, codes.data(), kInt8Block);
    std::memcpy(block + kInt8Block, &scale, sizeof(scale));
  });
}

template <class T>
void decode(const std::byte* from, std::size_t count, T* values) {
  for_blocks(count, [&](std::size_t first, std::size_t n) {
    const std::byte* const block = from + bytes_of(DType::i8, first);
    Codes codes;
    float scale = 0;
    std::memcpy(codes.data(), block, kInt8Block);
    std::memcpy(&scale, block + kInt8Block, sizeof(scale));
    decode_block(codes, scale, n, values + first);
  });
}

template <class T>
void encode_and_decode(T* values, std::size_t count, std::uint64_t draw) {
  for_blocks(count, [&](std::size_t first, std::size_t n) {
    Codes codes;
    const float scale = encode_block(values + first, n, draw + first, codes);
    decode_block(codes, scale, n, values + first);
  });
}

const std::byte* shifted(const void* data, DType type, std::size_t elements) {
  return static_cast<const std::byte*>(data) + bytes_of(type, elements);
}

template <class T>
class Stage {
 public:
  Stage(const Job<T>& job, ConvertLoop convert)
      : job_(job), convert_(convert), sources_(job.sources.begin(), job.sources.end()) {
    std::size_t tiles = 0;
    for (const Source& source : sources_)
      tiles += is_special(source) ? 1 : 0;
    decoded_.resize(tiles * kTile);
  }

  static bool is_special(const Source& source) { return source.type == DType::i8 || source.rounded_to; }

  // The job on elements begin .. begin + count, counted from 0.
  Job<T> tile(std::size_t begin, std::size_t count) {
    Job<T> part = job_;
    std::size_t next = 0;
    for (std::size_t k = 0; k < sources_.size(); ++k) {
      const Source& source = job_.sources[k];
      sources_[k].data = shifted(source.data, source.type, begin);
      if (!is_special(source)) continue;
      T* const to = decoded_.data() + kTile * next++;
      prepare(source, begin, count, to);
      sources_[k] = {to, dtype_of<T>(), source.weight};
    }
    part.sources = sources_;
    if (part.gradient.data != nullptr)
      part.gradient.data = shifted(part.gradient.data, part.gradient.type, begin);
    for (T*& state : part.state)
      state = state == nullptr ? nullptr : state + begin;
    part.to.values = part.to.values == nullptr ? next_.data() : part.to.values + begin;
    if (encodes_here()) {
      part.to.encoded = nullptr;
      part.streams = false;  // it is read again at once
    } else if (part.to.encoded != nullptr) {
      part.to.encoded = const_cast<std::byte*>(shifted(part.to.encoded, part.to.encoded_type, begin));
    }
    return part;
  }

  void finish(const Job<T>& part, std::size_t begin, std::size_t count) const {
    if (!encodes_here()) return;
    auto* const to = static_cast<std::byte*>(job_.to.encoded) + bytes_of(DType::i8, begin);
    encode(part.to.values, count, job_.to.draw + begin, to);
  }

 private:
  bool encodes_here() const { return job_.to.encoded != nullptr && job_.to.encoded_type == DType::i8; }

  void prepare(const Source& source, std::size_t begin, std::size_t count, T* to) {
    const std::byte* const from = shifted(source.data, source.type, begin);
    if (source.type == DType::i8) return decode(from, count, to);
    convert_({to, dtype_of<T>(), from, source.type}, {0, count});
    if (*source.rounded_to == DType::i8) return encode_and_decode(to, count, source.draw + begin);
    std::array<std::uint16_t, kTile> words;
    convert_({words.data(), *source.rounded_to, to, dtype_of<T>()}, {0, count});
    convert_({to, dtype_of<T>(), words.data(), *source.rounded_to}, {0, count});
  }

  const Job<T>& job_;
  const ConvertLoop convert_;
  std::vector<Source> sources_;
  std::vector<T> decoded_;
  std::array<T, kTile> next_;  // where the values go that nobody wants
};

}  // namespace

template <class T>
bool needs_staging(const Job<T>& job) {
  return (job.to.encoded != nullptr && job.to.encoded_type == DType::i8) ||
         std::any_of(job.sources.begin(), job.sources.end(), Stage<T>::is_special);
}

template <class T>
void run_staged(const Job<T>& job, Range range, ConvertLoop convert,
                const std::function<void(const Job<T>&, Range)>& loop) {
  Stage<T> stage(job, convert);
  for (std::size_t begin = range.begin; begin < range.end; begin += kTile) {
    const std::size_t count = std::min(kTile, range.end - begin);
    const Job<T> part = stage.tile(begin, count);
    loop(part, Range{0, count});
    stage.finish(part, begin, count);
  }
}

template bool needs_staging(const Job<float>&);
template bool needs_staging(const Job<double>&);
template void run_staged(const Job<float>&, Range, ConvertLoop,
                         const std::function<void(const Job<float>&, Range)>&);
template void run_staged(const Job<double>&, Range, ConvertLoop,
                         const std::function<void(const Job<double>&, Range)>&);

}  // namespace kith::kernels
