#include "kith/kernels/cpu/loops.h"

#include <algorithm>
#include <cmath>

#include "kith/kernels/cpu/portable/elements.h"

// Plain loops over tiles that stay in the first-level cache: mix into a tile, step it, write it out. A
// compiler vectorises each of them for its own baseline; multiply-adds are not fused.

namespace kith::kernels {
namespace {

constexpr std::size_t kTile = 512;

template <class T>
const T* native_or_converted(const void* data, DType type, std::size_t begin, std::size_t count, T* tile) {
  if (type == dtype_of<T>()) return static_cast<const T*>(data) + begin;
  load_elements(data, type, begin, count, tile);
  return tile;
}

template <class T>
void mix_tile(const Job<T>& job, std::size_t begin, std::size_t count, T* mixed) {
  T converted[kTile];
  bool first = true;
  for (const Source& source : job.sources) {
    const T* x = native_or_converted(source.data, source.type, begin, count, converted);
    const T weight = static_cast<T>(source.weight);
    if (first) {
      for (std::size_t i = 0; i < count; ++i)
        mixed[i] = weight * x[i];
    } else {
      for (std::size_t i = 0; i < count; ++i)
        mixed[i] = weight * x[i] + mixed[i];
    }
    first = false;
  }
  for (std::size_t i = 0; i < count; ++i)
    mixed[i] = job.scale * mixed[i];
}

// Runs step(mixed, gradient, begin, count) over tiles; it turns `mixed` into the next parameters.
template <class T, class Step>
void run(const Job<T>& job, Range range, const Step& step) {
  T mixed[kTile];
  T converted[kTile];
  for (std::size_t begin = range.begin; begin < range.end; begin += kTile) {
    const std::size_t count = std::min(kTile, range.end - begin);
    mix_tile(job, begin, count, mixed);
    const T* gradient = nullptr;
    if (job.gradient.data != nullptr) {
      gradient = native_or_converted(job.gradient.data, job.gradient.type, begin, count, converted);
    }
    step(mixed, gradient, begin, count);
    if (job.to.encoded != nullptr) store_elements(mixed, count, job.to.encoded, job.to.encoded_type, begin);
    if (job.to.values != nullptr) std::copy_n(mixed, count, job.to.values + begin);
  }
}

template <class T>
void mix_loop(const Job<T>& job, Range range) {
  run(job, range, [](T*, const T*, std::size_t, std::size_t) {});
}

template <class T>
void sgd_loop(const Job<T>& job, const SgdScalars<T>& s, bool first, Range range) {
  run(job, range, [&](T* x, const T* gradient, std::size_t begin, std::size_t count) {
    T* b = s.momentum == 0 ? nullptr : job.state[0] + begin;
    for (std::size_t i = 0; i < count; ++i) {
      T g = s.gradient_scale * gradient[i];
      if (s.decays) g = s.decay * x[i] + g;
      T direction = g;
      if (b != nullptr) {
        b[i] = first ? g : s.momentum * b[i] + s.kept * g;
        direction = s.nesterov ? s.momentum * b[i] + g : b[i];
      }
      x[i] = x[i] - s.lr * direction;
    }
  });
}

template <class T>
T first_moment(const AdamScalars<T>& s, T m, T g) {
  return s.b1 * m + s.c1 * g;
}

template <class T>
T second_moment(const AdamScalars<T>& s, T v, T g) {
  return s.b2 * v + s.c2 * g * g;
}

// Decays x or g as asked; returns g.
template <class T>
T decay(const AdamScalars<T>& s, T& x, T gradient) {
  T g = s.gradient_scale * gradient;
  if (s.couples) g = s.decay * x + g;
  if (s.shrinks) x = s.shrink * x;
  return g;
}

template <class T>
T descend(const AdamScalars<T>& s, T x, T m, T v) {
  return x - s.rate * (m / (std::sqrt(v) * s.correction + s.eps));
}

template <class T>
void adam_loop(const Job<T>& job, const AdamScalars<T>& given, Range range) {
  const AdamScalars<T> s = given;
  run(job, range, [&](T* x, const T* gradient, std::size_t begin, std::size_t count) {
    T* m = job.state[0] + begin;
    T* v = job.state[1] + begin;
    for (std::size_t i = 0; i < count; ++i) {
      const T g = decay(s, x[i], gradient[i]);
      m[i] = first_moment(s, m[i], g);
      v[i] = second_moment(s, v[i], g);
      x[i] = descend(s, x[i], m[i], v[i]);
    }
  });
}

template <class T>
void accum_adam_loop(const Job<T>& job, const AdamScalars<T>& given, bool commits, Range range) {
  const AdamScalars<T> s = given;
  run(job, range, [&](T* x, const T* gradient, std::size_t begin, std::size_t count) {
    T* m = job.state[0] + begin;
    T* v = job.state[1] + begin;
    T* a = job.state[2] + begin;
    for (std::size_t i = 0; i < count; ++i) {
      const T g = decay(s, x[i], gradient[i]);
      x[i] = descend(s, x[i], first_moment(s, m[i], g), second_moment(s, v[i], g));
      a[i] = s.share * g + a[i];
    }
    if (!commits) return;
    for (std::size_t i = 0; i < count; ++i) {
      m[i] = first_moment(s, m[i], a[i]);
      v[i] = second_moment(s, v[i], a[i]);
      a[i] = 0;
    }
  });
}

// Independent sums, so that the additions need not wait for each other.
template <class T>
Norms norms_loop(const T* a, const T* b, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  double norm[kLanes] = {};
  double distance[kLanes] = {};
  const T* other = b == nullptr ? a : b;
  for (std::size_t i = 0; i < count; i += kLanes) {
    const std::size_t lanes = std::min(kLanes, count - i);
    for (std::size_t k = 0; k < lanes; ++k) {
      const double x = a[i + k];
      const double gap = x - static_cast<double>(other[i + k]);
      norm[k] += x * x;
      distance[k] += gap * gap;
    }
  }
  Norms sums;
  for (std::size_t k = 0; k < kLanes; ++k) {
    sums.squared_norm += norm[k];
    if (b != nullptr) sums.squared_distance += distance[k];
  }
  return sums;
}

template <class T>
Loops<T> make_loops() {
  return {"portable", mix_loop<T>, sgd_loop<T>, adam_loop<T>, accum_adam_loop<T>, norms_loop<T>};
}

}  // namespace

template <>
Loops<float> select_loops<float>() {
  return make_loops<float>();
}

template <>
Loops<double> select_loops<double>() {
  return make_loops<double>();
}

}  // namespace kith::kernels
