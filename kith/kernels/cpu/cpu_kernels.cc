#include "kith/kernels/cpu/cpu_kernels.h"

#include <algorithm>
#include <vector>

#include "kith/kernels/arguments.h"
#include "kith/kernels/cpu/loops.h"
#include "kith/kernels/cpu/thread_pool.h"

namespace kith::kernels {
namespace {

// A thread is not woken for less than this; a guess, not tuned.
constexpr std::size_t kLeastPerThread = 32768;
// Norms are summed per block, and threads get whole blocks.
constexpr std::size_t kNormBlock = 4096;

template <class T>
class CpuKernels final : public Kernels<T> {
 public:
  explicit CpuKernels(const CpuOptions& options)
      : stream_from_bytes_(options.stream_from_bytes), pool_(options.threads) {}

  void mix(const Destination<T>& to, const Mix& mix, std::size_t count) override {
    check_mix(to, mix, count);
    const Job<T> job = prepare(to, mix, {}, {}, count);
    split(count, [&](Range range) { loops_.mix(job, range); });
  }

  void mix_sgd(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* momentum,
               const SgdOptions& options, std::size_t count) override {
    check_step(to, mix, gradient, count);
    check_sgd(momentum, options, count);
    const Job<T> job = prepare(to, mix, gradient, {momentum}, count);
    const SgdScalars<T> scalars(gradient, options);
    split(count, [&](Range range) { loops_.sgd(job, scalars, options.first, range); });
  }

  void mix_adam(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* m, T* v,
                const AdamOptions& options, std::size_t count) override {
    check_step(to, mix, gradient, count);
    check_adam(options);
    const Job<T> job = prepare(to, mix, gradient, {m, v}, count);
    const AdamScalars<T> scalars(gradient, options);
    split(count, [&](Range range) { loops_.adam(job, scalars, range); });
  }

  void mix_accum_adam(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* m, T* v,
                      T* accumulator, const AccumAdamOptions& options, std::size_t count) override {
    check_step(to, mix, gradient, count);
    check_accum_adam(options);
    const Job<T> job = prepare(to, mix, gradient, {m, v, accumulator}, count);
    const AdamScalars<T> scalars(gradient, options);
    split(count, [&](Range range) { loops_.accum_adam(job, scalars, options.commits(), range); });
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

  void convert(void* to, DType to_type, const void* from, DType from_type, std::size_t count) override {
    const ConvertJob job{to, to_type, from, from_type};
    split(count, [&](Range range) { convert_(job, range); });
  }

 private:
  Job<T> prepare(const Destination<T>& to, const Mix& mix, const Gradient& gradient, std::array<T*, 3> state,
                 std::size_t count) const {
    Job<T> job{to, mix.sources, static_cast<T>(mix.scale), gradient, state};
    bool reads_destination = false;
    job.native = gradient.data == nullptr || gradient.type == dtype_of<T>();
    for (const Source& source : mix.sources) {
      job.native = job.native && source.type == dtype_of<T>();
      reads_destination = reads_destination || source.data == to.values;
    }
    job.streams = to.values != nullptr && !reads_destination && count * sizeof(T) >= stream_from_bytes_;
    return job;
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
