#include "kith/kernels/cuda/cuda_kernels.h"

#include <array>

#include "kith/base/signal_hold.h"
#include "kith/base/text.h"
#include "kith/kernels/arguments.h"
#include "kith/kernels/cuda/batch.h"
#include "kith/kernels/cuda/device.h"
#include "kith/kernels/cuda/reduce.h"

namespace kith::kernels {
namespace {

using cuda::require;

template <class T>
void check(const Pass<T>& p) {
  if (std::holds_alternative<MixOnly>(p.step)) return check_mix(p.to, p.mix, p.count);
  check_step(p.to, p.mix, p.gradient, p.count);
  if (const auto* sgd = std::get_if<SgdOptions>(&p.step)) check_sgd(p.state[0], *sgd, p.count);
  if (const auto* adam = std::get_if<AdamOptions>(&p.step)) check_adam(*adam);
  if (const auto* accum = std::get_if<AccumAdamOptions>(&p.step)) check_accum_adam(*accum);
}

template <class T>
class CudaKernels final : public Kernels<T> {
 public:
  explicit CudaKernels(const CudaOptions& options) : device_(options.device), stream_(options.stream) {
    const cuda::OnDevice here(device_);
    memory_ = cuda::allocate((2 * cuda::kPartials + 2) * sizeof(double));
    partials_ = reinterpret_cast<double*>(memory_.get());
  }

  void mix(const Destination<T>& to, const Mix& mix, std::size_t count) override {
    run_one({to, mix, {}, {}, MixOnly{}, count});
  }

  void mix_sgd(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* momentum,
               const SgdOptions& options, std::size_t count) override {
    run_one({to, mix, gradient, {momentum}, options, count});
  }

  void mix_adam(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* m, T* v,
                const AdamOptions& options, std::size_t count) override {
    run_one({to, mix, gradient, {m, v}, options, count});
  }

  void mix_accum_adam(const Destination<T>& to, const Mix& mix, const Gradient& gradient, T* m, T* v,
                      T* accumulator, const AccumAdamOptions& options, std::size_t count) override {
    run_one({to, mix, gradient, {m, v, accumulator}, options, count});
  }

  void run(std::span<const Pass<T>> passes) override {
    for (const Pass<T>& pass : passes)
      check(pass);
    const cuda::OnDevice here(device_);
    cuda::Batch<T, cuda::LargeTable<T>> batch(stream_);
    for (const Pass<T>& pass : passes)
      batch.add(pass);
    batch.finish();
  }

  Norms norms(const T* a, const T* b, std::size_t count) override {
    const cuda::OnDevice here(device_);
    cuda::Terms terms;
    terms.terms = 1;
    terms.tiles = cuda::tiles_of_term(count);
    terms.term[0] = {a, b, count, 0, dtype_of<T>()};
    double* const totals = partials_ + 2 * cuda::kPartials;
    require(cuda::launch_partial_squares(terms, cuda::Sum::fresh, partials_, stream_), kSumming);
    require(cuda::launch_total_squares(partials_, 2, totals, stream_), kSumming);
    std::array<double, 2> sums{};
    require(cudaMemcpyAsync(sums.data(), totals, sizeof sums, cudaMemcpyDeviceToHost, stream_), kSumming);
    require(cudaStreamSynchronize(stream_), kSumming);
    return {sums[0], sums[1]};
  }

  void sum_squares(std::span<const Vector> vectors, double* sum) override {
    const cuda::OnDevice here(device_);
    cuda::Sum how = cuda::Sum::fresh;
    for_each_launch(vectors, [&](const cuda::Terms& terms) {
      require(cuda::launch_partial_squares(terms, how, partials_, stream_), kSumming);
      how = cuda::Sum::added;
    });
    require(cuda::launch_total_squares(partials_, 1, sum, stream_), kSumming);
  }

  void find_non_finite(std::span<const Vector> vectors, float* found) override {
    const cuda::OnDevice here(device_);
    constexpr const char* kLooking = "looking for inf and NaN on the GPU";
    require(cudaMemsetAsync(found, 0, sizeof *found, stream_), kLooking);
    for_each_launch(vectors, [&](const cuda::Terms& terms) {
      require(cuda::launch_find_non_finite(terms, found, stream_), kLooking);
    });
  }

  void clip_factor(const double* sum, double most, double* factor) override {
    const cuda::OnDevice here(device_);
    require(cuda::launch_clip_factor(sum, most, factor, stream_), "clipping on the GPU");
  }

  void convert(void* to, DType to_type, const void* from, DType from_type, std::size_t count) override {
    check_plain(to_type);
    check_plain(from_type);
    const cuda::OnDevice here(device_);
    require(cuda::launch_convert(to, to_type, from, from_type, count, stream_), "converting on the GPU");
  }

 private:
  // The vectors in portions of what a launch takes; one at least.
  template <class Launch>
  static void for_each_launch(std::span<const Vector> vectors, const Launch& launch) {
    for (const Vector& vector : vectors)
      check_plain(vector.type);
    cuda::Terms terms;
    for (const Vector& vector : vectors) {
      if (terms.terms == cuda::kMostTerms) {
        launch(terms);
        terms.terms = 0;
        terms.tiles = 0;
      }
      terms.term[terms.terms++] = {vector.data, nullptr, vector.count, terms.tiles, vector.type};
      terms.tiles += cuda::tiles_of_term(vector.count);
    }
    launch(terms);
  }

  static constexpr std::string_view kSumming = "summing squares on the GPU";

  void run_one(const Pass<T>& pass) {
    check(pass);
    const cuda::OnDevice here(device_);
    // A small table costs less to launch; only a great many sources need the large one.
    if (pass.mix.sources.size() <= std::size_t{cuda::SmallTable<T>::kMostSources}) {
      cuda::Batch<T, cuda::SmallTable<T>> batch(stream_);
      batch.add(pass);
      return batch.finish();
    }
    cuda::Batch<T, cuda::LargeTable<T>> batch(stream_);
    batch.add(pass);
    batch.finish();
  }

  const int device_;
  const cudaStream_t stream_;
  std::shared_ptr<std::byte> memory_;
  double* partials_ = nullptr;
};

}  // namespace

template <class T>
std::unique_ptr<Kernels<T>> make_cuda_kernels(const CudaOptions& options) {
  return std::make_unique<CudaKernels<T>>(options);
}

template std::unique_ptr<Kernels<float>> make_cuda_kernels(const CudaOptions&);
template std::unique_ptr<Kernels<double>> make_cuda_kernels(const CudaOptions&);

std::string cuda_obstacle() {
  const SignalHold hold;  // the first call starts a thread of CUDA's, under MPS
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) return cat("CUDA says: ", cudaGetErrorString(status));
  return devices == 0 ? "no GPU" : "";
}

}  // namespace kith::kernels
