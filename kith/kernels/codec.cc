#include "kith/kernels/codec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/kernels/codec_parts.h"
#include "kith/kernels/int8.h"

namespace kith::kernels {
namespace {

using Bytes = std::span<std::byte>;
using Message = std::span<const std::byte>;

template <class V>
void put(Bytes& to, V value) {
  std::memcpy(to.data(), &value, sizeof(V));
  to = to.subspan(sizeof(V));
}

template <class V>
V get(Message& from) {
  V value;
  std::memcpy(&value, from.data(), sizeof(V));
  from = from.subspan(sizeof(V));
  return value;
}

// visit(block of elements) for blocks of at most `size`.
template <class T, class Visit>
void for_blocks(std::span<T> x, std::size_t size, Visit visit) {
  for (std::size_t first = 0; first < x.size(); first += size)
    visit(x.subspan(first, std::min(size, x.size() - first)));
}

// term(element) of all elements, added up in the order of kith/kernels/codec_parts.h.
template <int kLanes, class T, class Term>
double sum_of(std::span<const T> block, Term term) {
  std::array<double, kLanes> lanes{};
  for (std::size_t k = 0; k < block.size(); ++k)
    lanes[k / 4 % kLanes] += term(static_cast<double>(block[k]));
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane)
      lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

template <class T>
class Full final : public Codec<T> {
 public:
  std::size_t bytes(std::size_t count) const override { return count * sizeof(T); }
  double contraction(std::size_t) const override { return 1; }
  void encode(std::span<const T> x, std::uint64_t, Bytes message) const override {
    std::memcpy(message.data(), x.data(), x.size_bytes());
  }
  void add(Message message, std::uint64_t, std::span<T> to) const override {
    for (T& value : to)
      value += get<T>(message);
  }
};

template <class T>
class Int8 final : public Codec<T> {
 public:
  std::size_t bytes(std::size_t count) const override { return int8_bytes(count); }
  // An element is off by half a step at most, a step is 1/127 of the block's greatest.
  double contraction(std::size_t) const override { return 1 - kInt8Block / (4.0 * 127 * 127); }
  void encode(std::span<const T> x, std::uint64_t, Bytes message) const override {
    Bytes scales = message.subspan(int8_scales_at(x.size()));
    std::memset(message.data(), 0, int8_scales_at(x.size()));
    for_blocks(x, kInt8Block, [&](std::span<const T> block) {
      std::uint32_t greatest = 0;
      for (const T value : block)
        greatest = std::max(greatest, magnitude_bits(static_cast<float>(value)));
      const Int8Scale scale = int8_scale(greatest);
      put(scales, scale.scale);
      for (const T value : block)
        put(message, static_cast<std::int8_t>(int8_from_float(static_cast<float>(value), scale.inverse)));
    });
  }
  void add(Message message, std::uint64_t, std::span<T> to) const override {
    Message scales = message.subspan(int8_scales_at(to.size()));
    for_blocks(to, kInt8Block, [&](std::span<T> block) {
      const auto scale = get<float>(scales);
      for (T& value : block)
        value += static_cast<T>(float_from_int8(get<std::int8_t>(message), scale));
    });
  }
};

// arXiv 1610.02132: scale * sign * level / s with s = 2^(B-1) - 1 levels, rounded up or down at random so
// that the mean is right.
template <class T>
class Qsgd final : public Codec<T> {
 public:
  explicit Qsgd(const CodecSpec& spec)
      : bits_(spec.bits), greatest_(spec.kind == CodecSpec::Kind::qsgd_max), levels_(qsgd_levels(bits_)) {}

  std::size_t bytes(std::size_t count) const override {
    return blocks_of(count, kQsgdBlock) * sizeof(float) + qsgd_packed_bytes(count, bits_);
  }

  // With x the part of a level: the error is the sum of x(1-x)/s^2 over the block, greatest when all
  // elements lie in the lowest level. Euclidean: subject to sum x^2 <= s^2. Greatest: beside one element
  // that is the scale.
  double contraction(std::size_t count) const override {
    const double d = static_cast<double>(std::min(count, kQsgdBlock)), s = levels_;
    if (greatest_) return 1 - (std::sqrt(1 + (d - 1) / (s * s)) - 1) / 2;
    return 1 - (s >= std::sqrt(d) / 2 ? d / (4 * s * s) : std::sqrt(d) / s - 1);
  }

  void encode(std::span<const T> x, std::uint64_t draw, Bytes message) const override {
    Bytes scales = message;
    Bytes packed = message.subspan(blocks_of(x.size(), kQsgdBlock) * sizeof(float));
    std::memset(packed.data(), 0, packed.size());
    std::size_t bit = 0, element = 0;
    for_blocks(x, kQsgdBlock, [&](std::span<const T> block) {
      const float scale = scale_of(block);
      put(scales, scale);
      for (const T value : block) {
        const double magnitude = std::abs(static_cast<double>(value));
        write(packed, bit, qsgd_code(magnitude, value < 0, scale, levels_, uniform_at(draw, element++)));
      }
    });
  }

  void add(Message message, std::uint64_t, std::span<T> to) const override {
    Message scales = message;
    const Message packed = message.subspan(blocks_of(to.size(), kQsgdBlock) * sizeof(float));
    std::size_t bit = 0;
    for_blocks(to, kQsgdBlock, [&](std::span<T> block) {
      const T unit = qsgd_unit<T>(get<float>(scales), levels_);
      for (T& value : block)
        value += qsgd_value(read(packed, bit), unit);
    });
  }

 private:
  // Rounded up to a float, so that no ratio is above 1.
  float scale_of(std::span<const T> block) const {
    std::uint64_t greatest = 0;
    for (const T value : block)
      greatest = std::max(greatest, order_of(static_cast<double>(value)));
    const double scale =
        greatest_ ? std::bit_cast<double>(greatest)
                  : std::sqrt(sum_of<kQsgdLanes>(block, [](double value) { return value * value; }));
    const auto rounded = static_cast<float>(scale);
    return number_or_nan(rounded < scale ? std::nextafter(rounded, INFINITY) : rounded);
  }

  void write(Bytes packed, std::size_t& bit, unsigned code) const {
    for (int k = 0; k < bits_; ++k, ++bit)
      packed[bit / 8] |= static_cast<std::byte>(((code >> k) & 1U) << (bit % 8));
  }
  unsigned read(Message packed, std::size_t& bit) const {
    unsigned code = 0;
    for (int k = 0; k < bits_; ++k, ++bit)
      code |= ((static_cast<unsigned>(packed[bit / 8]) >> (bit % 8)) & 1U) << k;
    return code;
  }

  const int bits_;
  const bool greatest_;
  const int levels_;
};

template <class T>
class Sign final : public Codec<T> {
 public:
  std::size_t bytes(std::size_t count) const override {
    return blocks_of(count, kSignBlock) * sizeof(float) + (count + 7) / 8;
  }
  // |x|_1^2 / (d |x|_2^2), least when one element is all there is.
  double contraction(std::size_t count) const override {
    return 1 / static_cast<double>(std::min(std::max<std::size_t>(count, 1), kSignBlock));
  }
  double consensus_step() const override { return 0.4; }

  void encode(std::span<const T> x, std::uint64_t, Bytes message) const override {
    Bytes scales = message;
    const Bytes bits = message.subspan(blocks_of(x.size(), kSignBlock) * sizeof(float));
    std::memset(bits.data(), 0, bits.size());
    std::size_t bit = 0;
    for_blocks(x, kSignBlock, [&](std::span<const T> block) {
      for (const T value : block) {
        bits[bit / 8] |= static_cast<std::byte>((value < 0 ? 1U : 0U) << (bit % 8));
        ++bit;
      }
      const double sum = sum_of<kSignLanes>(block, [](double value) { return std::abs(value); });
      put(scales, number_or_nan(static_cast<float>(sum / static_cast<double>(block.size()))));
    });
  }
  void add(Message message, std::uint64_t, std::span<T> to) const override {
    Message scales = message;
    const Message bits = message.subspan(blocks_of(to.size(), kSignBlock) * sizeof(float));
    std::size_t bit = 0;
    for_blocks(to, kSignBlock, [&](std::span<T> block) {
      const T scale = static_cast<T>(get<float>(scales));
      for (T& value : block) {
        const bool negative = ((static_cast<unsigned>(bits[bit / 8]) >> (bit % 8)) & 1U) != 0;
        value += negative ? -scale : scale;
        ++bit;
      }
    });
  }
};

template <class T>
class TopK final : public Codec<T> {
 public:
  explicit TopK(double share) : share_(share) {}

  std::size_t bytes(std::size_t count) const override {
    return kept_of(share_, count) * (sizeof(std::uint32_t) + sizeof(float));
  }
  double contraction(std::size_t count) const override {
    return static_cast<double>(kept_of(share_, count)) / static_cast<double>(count);
  }
  double consensus_step() const override { return std::min(1.0, std::sqrt(share_)); }

  void encode(std::span<const T> x, std::uint64_t, Bytes message) const override {
    std::vector<std::uint32_t> places(x.size());
    std::iota(places.begin(), places.end(), 0U);
    const auto end = places.begin() + static_cast<std::ptrdiff_t>(kept_of(share_, x.size()));
    // Of equal ones the first; NaNs before all numbers.
    std::nth_element(places.begin(), end - 1, places.end(), [&](std::uint32_t a, std::uint32_t b) {
      const auto left = order_of(x[a]), right = order_of(x[b]);
      return left != right ? left > right : a < b;
    });
    std::sort(places.begin(), end);
    for (auto place = places.begin(); place != end; ++place) {
      put(message, *place);
      put(message, static_cast<float>(x[*place]));
    }
  }
  void add(Message message, std::uint64_t, std::span<T> to) const override {
    while (!message.empty()) {
      const auto place = get<std::uint32_t>(message);
      const auto value = get<float>(message);
      if (place < to.size()) to[place] += static_cast<T>(value);
    }
  }

 private:
  const double share_;
};

template <class T>
class RandomK final : public Codec<T> {
 public:
  explicit RandomK(double share) : share_(share) {}

  std::size_t bytes(std::size_t count) const override { return kept_of(share_, count) * sizeof(float); }
  double contraction(std::size_t count) const override {
    return static_cast<double>(kept_of(share_, count)) / static_cast<double>(count);
  }
  double consensus_step() const override { return std::min(1.0, share_); }

  void encode(std::span<const T> x, std::uint64_t draw, Bytes message) const override {
    for_places(x.size(), draw, [&](std::size_t place) { put(message, static_cast<float>(x[place])); });
  }
  void add(Message message, std::uint64_t draw, std::span<T> to) const override {
    for_places(to.size(), draw, [&](std::size_t place) { to[place] += static_cast<T>(get<float>(message)); });
  }

 private:
  template <class Visit>
  void for_places(std::size_t count, std::uint64_t draw, Visit visit) const {
    if (count == 0) return;
    auto [place, stride] = drawn_places(count, draw);
    for (std::size_t k = kept_of(share_, count); k > 0; --k) {
      visit(place);
      place = (place + stride) % count;
    }
  }

  const double share_;
};

[[noreturn]] void refuse(std::string_view text) {
  throw InputError(cat("'", text, "' is no codec"), "codec",
                   "full, int8, qsgd 4, qsgd-max 3, sign, top-k 0.01 or random-k 0.1");
}

double number_after(std::string_view text, std::string_view name) {
  std::string_view rest = text.substr(name.size());
  while (rest.starts_with(' '))
    rest.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc{} || end != rest.data() + rest.size()) refuse(text);
  return value;
}

int bits_after(std::string_view text, std::string_view name) {
  const double bits = number_after(text, name);
  if (bits != std::floor(bits) || bits < 2 || bits > 8) {
    throw InputError(cat("'", text, "'"), "codec", "from 2 to 8 bits");
  }
  return static_cast<int>(bits);
}

CodecSpec parse_qsgd(std::string_view text, std::string_view name, CodecSpec::Kind kind) {
  const CodecSpec spec{kind, bits_after(text, name)};
  const double error = 1 - Qsgd<float>(spec).contraction(kQsgdBlock);
  if (error >= 1) {
    throw InputError(
        cat("'", text, "' cannot converge: its squared error may be ", error, " times what it encodes"),
        "codec", kind == CodecSpec::Kind::qsgd_max ? "at least 3 bits" : "at least 4 bits, or qsgd-max 3");
  }
  return spec;
}

double share_after(std::string_view text, std::string_view name) {
  const double share = number_after(text, name);
  if (!(share > 0 && share <= 1)) throw InputError(cat("'", text, "'"), "codec", "a share above 0, up to 1");
  return share;
}

}  // namespace

std::size_t kept_of(double share, std::size_t count) {
  const auto kept = static_cast<std::size_t>(std::ceil(share * static_cast<double>(count)));
  return std::min(count, std::max<std::size_t>(kept, 1));
}

Progression drawn_places(std::size_t count, std::uint64_t draw) {
  Rng rng(draw);
  Progression places{rng.below(count), 1 + rng.below(count)};
  while (std::gcd(places.stride, count) != 1)
    ++places.stride;
  return places;
}

CodecSpec parse_codec(std::string_view text) {
  using enum CodecSpec::Kind;
  if (text == "full") return {full};
  if (text == "int8") return {int8};
  if (text == "sign") return {sign};
  if (text.starts_with("qsgd-max ")) return parse_qsgd(text, "qsgd-max", qsgd_max);
  if (text.starts_with("qsgd ")) return parse_qsgd(text, "qsgd", qsgd);
  if (text.starts_with("top-k ")) return {top_k, 0, share_after(text, "top-k")};
  if (text.starts_with("random-k ")) return {random_k, 0, share_after(text, "random-k")};
  refuse(text);
}

template <class T>
std::unique_ptr<Codec<T>> make_codec(std::string_view text) {
  const CodecSpec spec = parse_codec(text);
  switch (spec.kind) {
    case CodecSpec::Kind::full:
      return std::make_unique<Full<T>>();
    case CodecSpec::Kind::int8:
      return std::make_unique<Int8<T>>();
    case CodecSpec::Kind::qsgd:
    case CodecSpec::Kind::qsgd_max:
      return std::make_unique<Qsgd<T>>(spec);
    case CodecSpec::Kind::sign:
      return std::make_unique<Sign<T>>();
    case CodecSpec::Kind::top_k:
      return std::make_unique<TopK<T>>(spec.share);
    case CodecSpec::Kind::random_k:
      break;
  }
  return std::make_unique<RandomK<T>>(spec.share);
}

std::vector<std::string> codec_names() {
  return {"full", "int8", "qsgd", "qsgd-max", "sign", "top-k", "random-k"};
}

template std::unique_ptr<Codec<float>> make_codec<float>(std::string_view);
template std::unique_ptr<Codec<double>> make_codec<double>(std::string_view);

}  // namespace kith::kernels
