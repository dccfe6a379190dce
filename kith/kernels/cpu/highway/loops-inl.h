// The fused loops and the norms. Included once per target.

#include <algorithm>
#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kith/kernels/cpu/highway/elements-inl.h"
#include "kith/kernels/cpu/highway/steps-inl.h"
#include "kith/kernels/cpu/loops.h"

#if defined(KITH_KERNELS_LOOPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KITH_KERNELS_LOOPS_INL_H
#undef KITH_KERNELS_LOOPS_INL_H
#else
#define KITH_KERNELS_LOOPS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace kith::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// How a vector meets memory. Native: elements of D's own type. Whole: of any type. Part: the first n lanes,
// of any type.
struct Native {
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const void* data, DType, std::size_t i) const {
    return hn::LoadU(d, static_cast<const hn::TFromD<D>*>(data) + i);
  }
  template <class D>
  HWY_INLINE void store(D d, hn::Vec<D> v, void* data, DType type, std::size_t i) const {
    HWY_NAMESPACE::store(d, v, data, type, i);
  }
  template <class D>
  HWY_INLINE void stream(D d, hn::Vec<D> v, hn::TFromD<D>* aligned, std::size_t i) const {
    hn::Stream(v, d, aligned + i);
  }
};

struct Whole : Native {
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const void* data, DType type, std::size_t i) const {
    return HWY_NAMESPACE::load(d, data, type, i);
  }
};

struct Part {
  std::size_t n;

  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const void* data, DType type, std::size_t i) const {
    return load_part(d, data, type, i, n);
  }
  template <class D>
  HWY_INLINE void store(D d, hn::Vec<D> v, void* data, DType type, std::size_t i) const {
    store_part(d, v, data, type, i, n);
  }
  template <class D>
  HWY_INLINE void stream(D d, hn::Vec<D> v, hn::TFromD<D>* data, std::size_t i) const {
    store_part(d, v, data, dtype_of<hn::TFromD<D>>(), i, n);
  }
};

// The mixed value of one vector. A fixed number of sources, native ones and then bf16, is copied, so that the
// compiler may keep pointers and weights in registers across stores that it cannot tell apart from them.
template <int kNative, int kBf16>
struct Sources {
  static constexpr int kAll = kNative + kBf16;

  template <class T>
  struct Mixer {
    const void* data[kAll];
    T weight[kAll];
    T scale;

    explicit Mixer(const Job<T>& job) : scale(job.scale) {
      for (std::size_t k = 0; k < kAll; ++k) {
        data[k] = job.sources[k].data;
        weight[k] = static_cast<T>(job.sources[k].weight);
      }
    }

    template <class Access, class D>
    HWY_INLINE hn::Vec<D> operator()(const Access&, D d, std::size_t i) const {
      const auto source = [&](int k) HWY_ATTR {
        return load(d, data[k], k < kNative ? dtype_of<T>() : DType::bf16, i);
      };
      auto sum = hn::Mul(hn::Set(d, weight[0]), source(0));
      for (int k = 1; k < kAll; ++k)
        sum = hn::MulAdd(hn::Set(d, weight[k]), source(k), sum);
      return hn::Mul(hn::Set(d, scale), sum);
    }
  };

  template <class T>
  static bool fit(const Job<T>& job) {
    if (job.sources.size() != kAll) return false;
    for (std::size_t k = 0; k < kAll; ++k)
      if (job.sources[k].type != (k < kNative ? dtype_of<T>() : DType::bf16)) return false;
    return true;
  }
};

template <class T>
struct AnyMixer {
  std::span<const Source> sources;
  T scale;

  explicit AnyMixer(const Job<T>& job) : sources(job.sources), scale(job.scale) {}

  template <class Access, class D>
  HWY_INLINE hn::Vec<D> operator()(const Access& access, D d, std::size_t i) const {
    const Source& first = sources[0];
    auto sum = hn::Mul(hn::Set(d, static_cast<T>(first.weight)), access.load(d, first.data, first.type, i));
    for (const Source& source : sources.subspan(1)) {
      const auto values = access.load(d, source.data, source.type, i);
      sum = hn::MulAdd(hn::Set(d, static_cast<T>(source.weight)), values, sum);
    }
    return hn::Mul(hn::Set(d, scale), sum);
  }
};

template <class Access, class T, class Mixer, class Step>
HWY_INLINE void step_at(const Access& access, const Job<T>& job, const Mixer& mixer, const Step& step,
                        std::size_t i) {
  const hn::ScalableTag<T> d;
  constexpr DType kOwn = dtype_of<T>();
  const auto mixed = mixer(access, d, i);
  const auto zero = hn::Zero(d);
  auto gradient = zero, s0 = zero, s1 = zero, s2 = zero;
  if constexpr (Step::kGradient) gradient = access.load(d, job.gradient.data, job.gradient.type, i);
  if constexpr ((Step::kReads & 1) != 0) s0 = access.load(d, job.state[0], kOwn, i);
  if constexpr ((Step::kReads & 2) != 0) s1 = access.load(d, job.state[1], kOwn, i);
  if constexpr ((Step::kReads & 4) != 0) s2 = access.load(d, job.state[2], kOwn, i);
  const auto next = step(d, mixed, gradient, s0, s1, s2);
  if constexpr ((Step::kWrites & 1) != 0) access.store(d, s0, job.state[0], kOwn, i);
  if constexpr ((Step::kWrites & 2) != 0) access.store(d, s1, job.state[1], kOwn, i);
  if constexpr ((Step::kWrites & 4) != 0) access.store(d, s2, job.state[2], kOwn, i);
  if (job.to.encoded != nullptr) access.store(d, next, job.to.encoded, job.to.encoded_type, i);
  if (job.streams) {
    access.stream(d, next, job.to.values, i);
  } else if (job.to.values != nullptr) {
    access.store(d, next, job.to.values, kOwn, i);
  }
}

template <class T, class Step>
HWY_NOINLINE void part(const Job<T>& job, const Step& step, std::size_t i, std::size_t n) {
  step_at(Part{n}, job, AnyMixer<T>(job), step, i);
}

// Elements before the first whole vector of an aligned destination.
template <class T>
HWY_INLINE std::size_t unaligned_head(const T* to, Range range) {
  const std::size_t bytes = hn::Lanes(hn::ScalableTag<T>()) * sizeof(T);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(to + range.begin) % bytes;
  return std::min(past == 0 ? 0 : (bytes - past) / sizeof(T), range.end - range.begin);
}

template <class Mixer, class Access, class T, class Step>
HWY_NOINLINE void run(const Job<T>& given, const Step& given_step, Range range) {
  // Local copies: the compiler may then keep the scalars in registers across the stores below.
  const Job<T> job = given;
  const Step step = given_step;
  const Mixer mixer(given);
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  std::size_t i = range.begin;
  if (job.streams) {
    const std::size_t head = unaligned_head(job.to.values, range);
    if (head > 0) part(given, given_step, i, head);
    i += head;
  }
  for (; i + lanes <= range.end; i += lanes)
    step_at(Access{}, job, mixer, step, i);
  if (i < range.end) part(given, given_step, i, range.end - i);
  // Streamed stores are not ordered by the release that publishes them.
  if (job.streams) hwy::FlushStream();
}

// Runs where the sources are of that arrangement.
template <class Arrangement, class T, class Step>
bool run_as(const Job<T>& job, const Step& step, Range range) {
  if (!Arrangement::fit(job)) return false;
  run<typename Arrangement::template Mixer<T>, Native>(job, step, range);
  return true;
}

template <class T, class Step>
void run_any(const Job<T>& job, const Step& step, Range range) {
  if (job.gradient.data == nullptr || job.gradient.type == dtype_of<T>()) {
    if (run_as<Sources<1, 0>>(job, step, range) || run_as<Sources<2, 0>>(job, step, range) ||
        run_as<Sources<3, 0>>(job, step, range) || run_as<Sources<4, 0>>(job, step, range))
      return;
    // A pair on a bf16 wire (x, q, q), and a mean that came over one (mean, x, q).
    if constexpr (sizeof(T) == 4) {
      if (run_as<Sources<1, 2>>(job, step, range) || run_as<Sources<2, 1>>(job, step, range)) return;
    }
  }
  run<AnyMixer<T>, Whole>(job, step, range);
}

template <class T>
void mix_loop(const Job<T>& job, Range range) {
  run_any(job, MixStep<T>{}, range);
}

template <class T>
void sgd_loop(const Job<T>& job, const SgdScalars<T>& s, bool first, Range range) {
  if (s.momentum == 0) return run_any(job, SgdStep<T, Momentum::none>{s}, range);
  if (first) return run_any(job, SgdStep<T, Momentum::first>{s}, range);
  run_any(job, SgdStep<T, Momentum::kept>{s}, range);
}

template <class T>
void adam_loop(const Job<T>& job, const AdamScalars<T>& s, Range range) {
  run_any(job, AdamStep<T>{s}, range);
}

template <class T>
void accum_adam_loop(const Job<T>& job, const AdamScalars<T>& s, bool commits, Range range) {
  if (commits) return run_any(job, AccumAdamStep<T, true>{s}, range);
  run_any(job, AccumAdamStep<T, false>{s}, range);
}

template <class T>
Norms norms_loop(const T* a, const T* b, std::size_t count) {
  const hn::ScalableTag<double> d;
  constexpr DType kOwn = dtype_of<T>();
  const std::size_t lanes = hn::Lanes(d);
  auto norm0 = hn::Zero(d), norm1 = hn::Zero(d), distance0 = hn::Zero(d), distance1 = hn::Zero(d);
  const auto add = [&](auto x, auto y, auto& norm, auto& distance) HWY_ATTR {
    norm = hn::MulAdd(x, x, norm);
    const auto gap = hn::Sub(x, y);
    distance = hn::MulAdd(gap, gap, distance);
  };
  const T* other = b == nullptr ? a : b;
  std::size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    add(load(d, a, kOwn, i), load(d, other, kOwn, i), norm0, distance0);
    add(load(d, a, kOwn, i + lanes), load(d, other, kOwn, i + lanes), norm1, distance1);
  }
  for (; i < count; i += lanes) {
    const std::size_t n = std::min(lanes, count - i);
    add(load_part(d, a, kOwn, i, n), load_part(d, other, kOwn, i, n), norm0, distance0);
  }
  Norms sums;
  sums.squared_norm = hn::GetLane(hn::SumOfLanes(d, hn::Add(norm0, norm1)));
  if (b != nullptr) sums.squared_distance = hn::GetLane(hn::SumOfLanes(d, hn::Add(distance0, distance1)));
  return sums;
}

template <class T>
Loops<T> make_loops() {
  return {hwy::TargetName(HWY_TARGET), mix_loop<T>,  sgd_loop<T>, adam_loop<T>,
          accum_adam_loop<T>,          norms_loop<T>};
}

}  // namespace kith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
