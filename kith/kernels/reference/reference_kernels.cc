#include "kith/kernels/reference/reference_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kith/kernels/arguments.h"
#include "kith/kernels/half.h"
#include "kith/kernels/int8.h"
#include "kith/kernels/scalars.h"

namespace kith::kernels {
namespace {

template <class Word>
Word word_at(const void* data, std::size_t i) {
  Word word;
  std::memcpy(&word, static_cast<const std::byte*>(data) + i * sizeof(Word), sizeof(Word));
  return word;
}

template <class Word>
void set_word(void* data, std::size_t i, Word word) {
  std::memcpy(static_cast<std::byte*>(data) + i * sizeof(Word), &word, sizeof(Word));
}

double load(const void* data, DType type, std::size_t i) {
  switch (type) {
    case DType::f32:
      return word_at<float>(data, i);
    case DType::f64:
      return word_at<double>(data, i);
    case DType::bf16:
      return float_from_bf16(word_at<std::uint16_t>(data, i));
    case DType::f16:
      return float_from_f16(word_at<std::uint16_t>(data, i));
    case DType::i8:
      break;
  }
  return 0;
}

void store(void* data, DType type, std::size_t i, double value) {
  switch (type) {
    case DType::f32:
      return set_word(data, i, static_cast<float>(value));
    case DType::f64:
      return set_word(data, i, value);
    case DType::bf16:
      return set_word(data, i, bf16_from_double(value));
    case DType::f16:
      return set_word(data, i, f16_from_double(value));
    case DType::i8:
      break;
  }
}

// Of the wire int8: where element i lies, and the scale of its block.
std::size_t place_of(std::size_t i) {
  return i / kInt8Block * kInt8BlockBytes + i % kInt8Block;
}
std::byte* scale_place(const void* data, std::size_t i) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(data)) + i / kInt8Block * kInt8BlockBytes +
         kInt8Block;
}

template <class ValueAt>
Int8Scale scale_of_block(const ValueAt& value_at, std::size_t i, std::size_t count) {
  const std::size_t first = i / kInt8Block * kInt8Block;
  std::uint32_t greatest = 0;
  for (std::size_t k = first; k < std::min(first + kInt8Block, count); ++k)
    greatest = std::max(greatest, magnitude_bits(static_cast<float>(value_at(k))));
  return int8_wire_scale(greatest);
}

std::int32_t code_of(float value, const Int8Scale& scale, std::uint64_t draw, std::size_t i) {
  return int8_dithered(value, scale.inverse,
                       int8_dither(int8_draws(draw, i / 4 * 4), static_cast<int>(i % 4)));
}

// Element i of a source of `count`, as it takes part. What is rounded is the value in T: that is what a
// worker encoded when it published it.
template <class T>
double source_at(const Source& source, std::size_t i, std::size_t count) {
  if (source.type == DType::i8)
    return float_from_int8(word_at<std::int8_t>(source.data, place_of(i)),
                           word_at<float>(scale_place(source.data, i), 0));
  if (!source.rounded_to) return load(source.data, source.type, i);
  const auto value_at = [&](std::size_t k) { return static_cast<T>(load(source.data, source.type, k)); };
  if (*source.rounded_to == DType::i8) {
    const Int8Scale s = scale_of_block(value_at, i, count);
    return float_from_int8(code_of(static_cast<float>(value_at(i)), s, source.draw, i), s.scale);
  }
  if (*source.rounded_to == DType::bf16) return float_from_bf16(bf16_from_double(value_at(i)));
  return float_from_f16(f16_from_double(value_at(i)));
}

// Before anything is written: the destination may be a source, and the blocks of int8 look ahead.
template <class T>
std::vector<double> mixed_of(const Mix& mix, std::size_t count) {
  std::vector<double> mixed(count);
  for (std::size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (const Source& source : mix.sources)
      sum += source.weight * source_at<T>(source, i, count);
    mixed[i] = mix.scale * sum;
  }
  return mixed;
}

double gradient_at(const Gradient& gradient, std::size_t i) {
  return with_factor(gradient).scale * load(gradient.data, gradient.type, i);
}

template <class T>
void put(const Destination<T>& to, const std::vector<double>& next) {
  const auto rounded = [&](std::size_t i) { return static_cast<T>(next[i]); };
  for (std::size_t i = 0; i < next.size(); ++i) {
    if (to.values != nullptr) to.values[i] = rounded(i);
    if (to.encoded == nullptr) continue;
    if (to.encoded_type != DType::i8) {
      store(to.encoded, to.encoded_type, i, rounded(i));
      continue;
    }
    const Int8Scale s = scale_of_block(rounded, i, next.size());
    set_word(scale_place(to.encoded, i), 0, s.scale);
    const auto value = static_cast<float>(rounded(i));
    set_word(to.encoded, place_of(i), static_cast<std::int8_t>(code_of(value, s, to.draw, i)));
  }
  if (to.encoded == nullptr || to.encoded_type != DType::i8) return;
  for (std::size_t i = next.size(); i < whole_blocks(DType::i8, next.size()); ++i)
    set_word(to.encoded, place_of(i), std::int8_t{0});
}

template <class T>
class ReferenceKernels final : public Kernels<T> {
 public:
  void mix(const Destination<T>& to, const Mix& mix, std::size_t count) override {
    check_mix(to, mix, count);
    put(to, mixed_of<T>(mix, count));
  }

  void mix_sgd(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* momentum,
               const SgdOptions& options, std::size_t count) override {
    check_step(to, mix, gradient, count);
    check_sgd(momentum, options, count);
    std::vector<double> x = mixed_of<T>(mix, count);
    for (std::size_t i = 0; i < count; ++i) {
      double g = gradient_at(gradient, i);
      if (options.decay != 0) g += options.decay * x[i];
      double direction = g;
      if (options.momentum != 0) {
        const double b = options.first ? g : options.momentum * momentum[i] + (1 - options.dampening) * g;
        momentum[i] = static_cast<T>(b);
        direction = options.nesterov ? g + options.momentum * b : b;
      }
      x[i] -= options.lr * direction;
    }
    put(to, x);
  }

  void mix_adam(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* m, T* v,
                const AdamOptions& options, std::size_t count) override {
    check_step(to, mix, gradient, count);
    check_adam(options);
    const AdamScalars<double> s(gradient, options);
    std::vector<double> x = mixed_of<T>(mix, count);
    for (std::size_t i = 0; i < count; ++i) {
      const Decayed decayed = decay(s, x[i], gradient_at(gradient, i));
      const double next_m = s.b1 * m[i] + s.c1 * decayed.g;
      const double next_v = s.b2 * v[i] + s.c2 * decayed.g * decayed.g;
      m[i] = static_cast<T>(next_m);
      v[i] = static_cast<T>(next_v);
      x[i] = decayed.mixed - adam_step(s, next_m, next_v);
    }
    put(to, x);
  }

  void mix_accum_adam(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* m, T* v,
                      T* accumulator, const AccumAdamOptions& options, std::size_t count) override {
    check_step(to, mix, gradient, count);
    check_accum_adam(options);
    const AdamScalars<double> s(gradient, options);
    const bool commits = options.commits();
    std::vector<double> x = mixed_of<T>(mix, count);
    for (std::size_t i = 0; i < count; ++i) {
      const Decayed decayed = decay(s, x[i], gradient_at(gradient, i));
      const double a = accumulator[i] + s.share * decayed.g;
      const double now_m = s.b1 * m[i] + s.c1 * decayed.g;
      const double now_v = s.b2 * v[i] + s.c2 * decayed.g * decayed.g;
      accumulator[i] = commits ? T{0} : static_cast<T>(a);
      if (commits) {
        m[i] = static_cast<T>(s.b1 * m[i] + s.c1 * a);
        v[i] = static_cast<T>(s.b2 * v[i] + s.c2 * a * a);
      }
      x[i] = decayed.mixed - adam_step(s, now_m, now_v);
    }
    put(to, x);
  }

  Norms norms(const T* a, const T* b, std::size_t count) override {
    Norms sums;
    for (std::size_t i = 0; i < count; ++i) {
      const double x = a[i];
      sums.squared_norm += x * x;
      if (b != nullptr) sums.squared_distance += (x - b[i]) * (x - b[i]);
    }
    return sums;
  }

  void sum_squares(std::span<const Vector> vectors, double* sum) override {
    double total = 0;
    for (const Vector& vector : vectors) {
      check_plain(vector.type);
      for (std::size_t i = 0; i < vector.count; ++i)
        total += std::pow(load(vector.data, vector.type, i), 2);
    }
    *sum = total;
  }

  void find_non_finite(std::span<const Vector> vectors, float* found) override {
    *found = 0;
    for (const Vector& vector : vectors) {
      check_plain(vector.type);
      for (std::size_t i = 0; i < vector.count; ++i)
        if (!std::isfinite(load(vector.data, vector.type, i))) *found = 1;
    }
  }

  void clip_factor(const double* sum, double most, double* factor) override {
    *factor = clipping_factor(*sum, most);
  }

  void convert(void* to, DType to_type, const void* from, DType from_type, std::size_t count) override {
    check_plain(to_type);
    check_plain(from_type);
    for (std::size_t i = 0; i < count; ++i)
      store(to, to_type, i, load(from, from_type, i));
  }

 private:
  struct Decayed {
    double mixed;
    double g;
  };

  static Decayed decay(const AdamScalars<double>& s, double mixed, double g) {
    return {s.shrinks ? s.shrink * mixed : mixed, s.couples ? g + s.decay * mixed : g};
  }

  static double adam_step(const AdamScalars<double>& s, double m, double v) {
    return s.rate * (m / (std::sqrt(v) * s.correction + s.eps));
  }
};

}  // namespace

template <class T>
std::unique_ptr<Kernels<T>> make_reference_kernels() {
  return std::make_unique<ReferenceKernels<T>>();
}

template std::unique_ptr<Kernels<float>> make_reference_kernels();
template std::unique_ptr<Kernels<double>> make_reference_kernels();

}  // namespace kith::kernels
