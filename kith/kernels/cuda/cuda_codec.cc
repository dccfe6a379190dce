#include "kith/kernels/cuda/cuda_codec.h"

#include "kith/base/check.h"
#include "kith/kernels/cuda/codec.h"
#include "kith/kernels/cuda/device.h"

namespace kith::kernels {
namespace {

using cuda::require;
using Kind = CodecSpec::Kind;

template <class T>
class CudaCodecKernels final : public CodecKernels<T> {
 public:
  CudaCodecKernels(std::string_view codec, const CudaOptions& options)
      : spec_(parse_codec(codec)), device_(options.device), stream_(options.stream) {
    const cuda::OnDevice here(device_);
  }

  void encode(const T* x, T* replica, std::size_t count, std::uint64_t draw, std::byte* message) override {
    if (count == 0) return;
    const cuda::OnDevice here(device_);
    const cuda::CodecJob<T> job = job_of(x, replica, count, draw, message);
    if (spec_.kind == Kind::top_k) {
      require(cuda::launch_top(job, memory_for(count), stream_), kEncoding);
    } else {
      require(cuda::launch_codec(spec_.kind, job, stream_), kEncoding);
    }
  }

  void add(const std::byte* message, std::uint64_t draw, T* replica, std::size_t count) override {
    if (count == 0) return;
    const cuda::OnDevice here(device_);
    const auto job = job_of(nullptr, replica, count, draw, const_cast<std::byte*>(message));
    require(cuda::launch_codec(spec_.kind, job, stream_), "decoding on the GPU");
  }

 private:
  static constexpr std::string_view kEncoding = "encoding on the GPU";

  cuda::CodecJob<T> job_of(const T* x, T* replica, std::size_t count, std::uint64_t draw,
                           std::byte* message) const {
    const auto bits_of = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address); };
    KITH_CHECK(bits_of(message) % 16 == 0, "messages are aligned to 16 bytes");
    cuda::CodecJob<T> job{x, replica, message, count, draw, 0, {}, spec_.bits, false, false};
    job.greatest = spec_.kind == Kind::qsgd_max;
    job.wide = (bits_of(x) | bits_of(replica)) % 16 == 0;
    if (spec_.share > 0) job.kept = kept_of(spec_.share, count);
    if (spec_.kind == Kind::random_k) job.places = drawn_places(count, draw);
    return job;
  }

  std::byte* memory_for(std::size_t count) {
    const std::size_t bytes = cuda::top_bytes(count);
    if (bytes > memory_bytes_) {
      memory_ = cuda::allocate(bytes);  // freeing the old one waits for the GPU
      memory_bytes_ = bytes;
    }
    return memory_.get();
  }

  const CodecSpec spec_;
  const int device_;
  const cudaStream_t stream_;
  std::shared_ptr<std::byte> memory_;  // top-k's
  std::size_t memory_bytes_ = 0;
};

}  // namespace

template <class T>
std::unique_ptr<CodecKernels<T>> make_cuda_codec_kernels(std::string_view codec, const CudaOptions& options) {
  return std::make_unique<CudaCodecKernels<T>>(codec, options);
}

template std::unique_ptr<CodecKernels<float>> make_cuda_codec_kernels(std::string_view, const CudaOptions&);
template std::unique_ptr<CodecKernels<double>> make_cuda_codec_kernels(std::string_view, const CudaOptions&);

}  // namespace kith::kernels
