#include "kith/kernels/reference/reference_kernels.h"

#include <cmath>
#include <cstring>

#include "kith/kernels/arguments.h"
#include "kith/kernels/half.h"
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
  }
}

double mixed_at(const Mix& mix, std::size_t i) {
  double sum = 0;
  for (const Source& source : mix.sources)
    sum += source.weight * load(source.data, source.type, i);
  return mix.scale * sum;
}

double gradient_at(const Gradient& gradient, std::size_t i) {
  return gradient.scale * load(gradient.data, gradient.type, i);
}

template <class T>
void put(const Destination<T>& to, std::size_t i, double value) {
  const T rounded = static_cast<T>(value);
  if (to.values != nullptr) to.values[i] = rounded;
  if (to.encoded != nullptr) store(to.encoded, to.encoded_type, i, rounded);
}

template <class T>
class ReferenceKernels final : public Kernels<T> {
 public:
  void mix(const Destination<T>& to, const Mix& mix, std::size_t count) override {
    check_mix(to, mix, count);
    for (std::size_t i = 0; i < count; ++i)
      put(to, i, mixed_at(mix, i));
  }

  void mix_sgd(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* momentum,
               const SgdOptions& options, std::size_t count) override {
    check_step(to, mix, gradient, count);
    check_sgd(momentum, options, count);
    for (std::size_t i = 0; i < count; ++i) {
      const double mixed = mixed_at(mix, i);
      double g = gradient_at(gradient, i);
      if (options.decay != 0) g += options.decay * mixed;
      double direction = g;
      if (options.momentum != 0) {
        const double b = options.first ? g : options.momentum * momentum[i] + (1 - options.dampening) * g;
        momentum[i] = static_cast<T>(b);
        direction = options.nesterov ? g + options.momentum * b : b;
      }
      put(to, i, mixed - options.lr * direction);
    }
  }

  void mix_adam(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* m, T* v,
                const AdamOptions& options, std::size_t count) override {
    check_step(to, mix, gradient, count);
    check_adam(options);
    const AdamScalars<double> s(gradient, options);
    for (std::size_t i = 0; i < count; ++i) {
      const Decayed decayed = decay(s, mixed_at(mix, i), gradient_at(gradient, i));
      const double next_m = s.b1 * m[i] + s.c1 * decayed.g;
      const double next_v = s.b2 * v[i] + s.c2 * decayed.g * decayed.g;
      m[i] = static_cast<T>(next_m);
      v[i] = static_cast<T>(next_v);
      put(to, i, decayed.mixed - adam_step(s, next_m, next_v));
    }
  }

  void mix_accum_adam(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* m, T* v,
                      T* accumulator, const AccumAdamOptions& options, std::size_t count) override {
    check_step(to, mix, gradient, count);
    check_accum_adam(options);
    const AdamScalars<double> s(gradient, options);
    const bool commits = options.commits();
    for (std::size_t i = 0; i < count; ++i) {
      const Decayed decayed = decay(s, mixed_at(mix, i), gradient_at(gradient, i));
      const double a = accumulator[i] + s.share * decayed.g;
      const double now_m = s.b1 * m[i] + s.c1 * decayed.g;
      const double now_v = s.b2 * v[i] + s.c2 * decayed.g * decayed.g;
      accumulator[i] = commits ? T{0} : static_cast<T>(a);
      if (commits) {
        m[i] = static_cast<T>(s.b1 * m[i] + s.c1 * a);
        v[i] = static_cast<T>(s.b2 * v[i] + s.c2 * a * a);
      }
      put(to, i, decayed.mixed - adam_step(s, now_m, now_v));
    }
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

  void convert(void* to, DType to_type, const void* from, DType from_type, std::size_t count) override {
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
