#include "kith/kernels/cpu/cpu_kernels.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "kith/kernels/arguments.h"
#include "kith/kernels/cpu/loops.h"
#include "kith/kernels/cpu/staging.h"
#include "kith/kernels/cpu/thread_pool.h"

namespace kith::kernels {
namespace {

// A thread is not woken for less than this; a guess, not tuned.
constexpr std::size_t kLeastPerThread = 32768;
// Norms are summed per block, and threads get whole blocks.
constexpr std::size_t kNormBlock = 4096;

// Whether all bits of an exponent are set somewhere: inf or NaN.
template <class Word>
bool any_full_exponent(const void* data, Word exponent, Range range) {
  const std::byte* const bytes = static_cast<const std::byte*>(data);
  Word most = 0;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    Word word;
    std::memcpy(&word, bytes + i * sizeof word, sizeof word);
    most = std::max(most, static_cast<Word>(word & exponent));
  }
  return most == exponent;
}

bool holds_non_finite(const Vector& vector, Range range) {
  switch (vector.type) {
    case DType::f32:
      return any_full_exponent<std::uint32_t>(vector.data, 0x7f800000U, range);
    case DType::f64:
      return any_full_exponent<std::uint64_t>(vector.data, 0x7ff0000000000000U, range);
    case DType::bf16:
      return any_full_exponent<std::uint16_t>(vector.data, 0x7f80U, range);
    case DType::f16:
      return any_full_exponent<std::uint16_t>(vector.data, 0x7c00U, range);
    case DType::i8:
      break;
  }
  return false;
}

template <class T>
class CpuKernels final : public Kernels<T> {
 public:
  explicit CpuKernels(const CpuOptions& options)
      : stream_from_bytes_(options.stream_from_bytes), pool_(options.threads) {}

  void mix(const Destination<T>& to, const Mix& mix, std::size_t count) override {
    check_mix(to, mix, count);
    const Job<T> job = prepare(to, mix, {}, {}, count);
    split(job, count, [&](const Job<T>& part, Range range) { loops_.mix(part, range); });
  }

  void mix_sgd(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* momentum,
               const SgdOptions& options, std::size_t count) override {
    check_step(to, mix, gradient, count);
    check_sgd(momentum, options, count);
    const Job<T> job = prepare(to, mix, gradient, {momentum}, count);
    const SgdScalars<T> scalars(with_factor(gradient), options);
    split(job, count,
          [&](const Job<T>& part, Range range) { loops_.sgd(part, scalars, options.first, range); });
  }

  void mix_adam(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* m, T* v,
                const AdamOptions& options, std::size_t count) override {
    check_step(to, mix, gradient, count);
    check_adam(options);
    const Job<T> job = prepare(to, mix, gradient, {m, v}, count);
    const AdamScalars<T> scalars(with_factor(gradient), options);
    split(job, count, [&](const Job<T>& part, Range range) { loops_.adam(part, scalars, range); });
  }

  void mix_accum_adam(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* m, T* v,
                      T* accumulator, const AccumAdamOptions& options, std::size_t count) override {
    check_step(to, mix, gradient, count);
    check_accum_adam(options);
    const Job<T> job = prepare(to, mix, gradient, {m, v, accumulator}, count);
    const AdamScalars<T> scalars(with_factor(gradient), options);
    split(job, count, [&](const Job<T>& part, Range range) {
      loops_.accum_adam(part, scalars, options.commits(), range);
    });
  }

  Norms norms(const T* a, const T* b, std::size_t count) override {
    blocks_.resize((count + kNormBlock - 1) / kNormBlock);
    split(count, [&](Range range) {
      for (std::size_t i = range.begin; i < range.end; i += kNormBlock) {
        blocks_[i / kNormBlock] =
            loops_.norms(a + i, b == nullptr ? b : b + i, std::min(kNormBlock, range.end - i));
      }
    });
    Norms sums;
    for (const Norms& block : blocks_) {
      sums.squared_norm += block.squared_norm;
      sums.squared_distance += block.squared_distance;
    }
    return sums;
  }

  void sum_squares(std::span<const Vector> vectors, double* sum) override {
    double total = 0;
    for (const Vector& vector : vectors) {
      check_plain(vector.type);
      if (vector.type == dtype_of<T>()) {
        total += norms(static_cast<const T*>(vector.data), nullptr, vector.count).squared_norm;
        continue;
      }
      std::array<T, kNormBlock> block;
      for (std::size_t i = 0; i < vector.count; i += kNormBlock) {
        const std::size_t count = std::min(kNormBlock, vector.count - i);
        const std::byte* from = static_cast<const std::byte*>(vector.data) + i * size_of(vector.type);
        convert_({block.data(), dtype_of<T>(), from, vector.type}, {0, count});
        total += loops_.norms(block.data(), nullptr, count).squared_norm;
      }
    }
    *sum = total;
  }

  void find_non_finite(std::span<const Vector> vectors, float* found) override {
    std::atomic<bool> seen = false;
    for (const Vector& vector : vectors) {
      check_plain(vector.type);
      split(vector.count, [&](Range range) {
        if (holds_non_finite(vector, range)) seen = true;
      });
    }
    *found = seen ? 1 : 0;
  }

  void clip_factor(const double* sum, double most, double* factor) override {
    *factor = clipping_factor(*sum, most);
  }

  void convert(void* to, DType to_type, const void* from, DType from_type, std::size_t count) override {
    check_plain(to_type);
    check_plain(from_type);
    const ConvertJob job{to, to_type, from, from_type};
    split(count, [&](Range range) { convert_(job, range); });
  }

 private:
  Job<T> prepare(const Destination<T>& to, const Mix& mix, const Gradient& gradient, std::array<T*, 3> state,
                 std::size_t count) const {
    Job<T> job{to, mix.sources, static_cast<T>(mix.scale), gradient, state};
    bool reads_destination = false;
    for (const Source& source : mix.sources)
      reads_destination = reads_destination || source.data == to.values;
    job.streams = to.values != nullptr && !reads_destination && count * sizeof(T) >= stream_from_bytes_;
    return job;
  }

  template <class Loop>
  void split(const Job<T>& job, std::size_t count, const Loop& loop) {
    const bool staged = needs_staging(job);
    split(count, [&](Range range) { staged ? run_staged<T>(job, range, convert_, loop) : loop(job, range); });
  }

  // Cuts [0, count) at multiples of kNormBlock into one range per thread.
  template <class Body>
  void split(std::size_t count, const Body& body) {
    const std::size_t pieces = std::clamp(count / kLeastPerThread, std::size_t{1}, pool_.threads());
    if (pieces == 1) return body(Range{0, count});
    const std::size_t blocks = (count + kNormBlock - 1) / kNormBlock;
    pool_.run([&](std::size_t i) {
      if (i >= pieces) return;
      const Range range{blocks * i / pieces * kNormBlock,
                        std::min(count, blocks * (i + 1) / pieces * kNormBlock)};
      body(range);
    });
  }

  const Loops<T> loops_ = select_loops<T>();
  const ConvertLoop convert_ = select_convert_loop();
  const std::size_t stream_from_bytes_;
  ThreadPool pool_;
  std::vector<Norms> blocks_;
};

}  // namespace

template <class T>
std::unique_ptr<Kernels<T>> make_cpu_kernels(const CpuOptions& options) {
  return std::make_unique<CpuKernels<T>>(options);
}

template std::unique_ptr<Kernels<float>> make_cpu_kernels(const CpuOptions&);
template std::unique_ptr<Kernels<double>> make_cpu_kernels(const CpuOptions&);

std::string cpu_target() {
  return select_loops<float>().target;
}

}  // namespace kith::kernels
