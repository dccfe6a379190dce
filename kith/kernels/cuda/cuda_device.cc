#include "kith/kernels/cuda/cuda_device.h"

#include <cstring>
#include <utility>

#include <cuda_runtime_api.h>

#include "kith/base/text.h"
#include "kith/kernels/cuda/cuda_codec.h"
#include "kith/kernels/cuda/device.h"

namespace kith::kernels {
namespace {

using cuda::OnDevice;
using cuda::require;

// A recorded event. Who waits for it sleeps; nobody asks for its time.
class EventPoint final : public Point {
 public:
  EventPoint(int device, cudaStream_t stream) : device_(device) {
    const OnDevice on(device_);
    require(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync),
            "cudaEventCreate");
    const cudaError_t recorded = cudaEventRecord(event_, stream);
    if (recorded != cudaSuccess) cudaEventDestroy(event_);
    require(recorded, "cudaEventRecord");
  }
  ~EventPoint() override { cudaEventDestroy(event_); }
  EventPoint(const EventPoint&) = delete;
  EventPoint& operator=(const EventPoint&) = delete;

  void wait() const override {
    const OnDevice on(device_);
    require(cudaEventSynchronize(event_), "cudaEventSynchronize");
  }
  cudaEvent_t event() const { return event_; }

 private:
  const int device_;
  cudaEvent_t event_ = nullptr;
};

class StreamQueue final : public Queue {
 public:
  StreamQueue(int device, cudaStream_t stream, bool owned)
      : device_(device), stream_(stream), owned_(owned) {}
  ~StreamQueue() override {
    if (owned_) cudaStreamDestroy(stream_);  // what is on it is still done
  }
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    const OnDevice on(device_);
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  }
  void copy_now(void* to, const void* from, std::size_t bytes) override {
    copy(to, from, bytes);
    kernels::wait(mark());
  }
  void zero(void* to, std::size_t bytes) override {
    if (bytes == 0) return;
    const OnDevice on(device_);
    require(cudaMemsetAsync(to, 0, bytes, stream_), "cudaMemsetAsync");
  }
  Mark mark() override { return std::make_shared<EventPoint>(device_, stream_); }
  void after(const Mark& mark) override {
    if (!mark) return;
    const OnDevice on(device_);
    // Marks of this device's queues are all of this kind.
    const auto& point = static_cast<const EventPoint&>(*mark);
    require(cudaStreamWaitEvent(stream_, point.event(), 0), "cudaStreamWaitEvent");
  }
  std::unique_ptr<Kernels<float>> kernels_f32() override {
    return make_cuda_kernels<float>({device_, stream_});
  }
  std::unique_ptr<Kernels<double>> kernels_f64() override {
    return make_cuda_kernels<double>({device_, stream_});
  }
  std::unique_ptr<CodecKernels<float>> codec_f32(std::string_view codec) override {
    return make_cuda_codec_kernels<float>(codec, {device_, stream_});
  }
  std::unique_ptr<CodecKernels<double>> codec_f64(std::string_view codec) override {
    return make_cuda_codec_kernels<double>(codec, {device_, stream_});
  }

 private:
  const int device_;
  const cudaStream_t stream_;
  const bool owned_;
};

// Null when the driver refuses.
std::shared_ptr<const void> pin(int device, std::span<std::byte> bytes) {
  const OnDevice on(device);
  // The second is for memory that this process may only read, such as a neighbour's slots.
  for (const unsigned flags :
       {cudaHostRegisterPortable, cudaHostRegisterPortable | cudaHostRegisterReadOnly}) {
    if (cudaHostRegister(bytes.data(), bytes.size(), flags) == cudaSuccess)
      return {bytes.data(), [](const void* begin) { cudaHostUnregister(const_cast<void*>(begin)); }};
    cudaGetLastError();  // nobody else's
  }
  return nullptr;
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const CudaOptions& options)
      : index_(options.device), compute_(options.device, options.stream, false) {
    const OnDevice on(index_);
    require(cudaFree(nullptr), name());  // makes the context now, where an error can be told
  }

  int index() const { return index_; }
  std::string name() const override { return cat("cuda:", index_); }
  bool host() const override { return false; }

  Buffer allocate(std::size_t bytes) override {
    if (bytes == 0) return {};
    const OnDevice on(index_);
    std::shared_ptr<std::byte> block = cuda::allocate(bytes);
    require(cudaMemsetAsync(block.get(), 0, bytes, cudaStreamPerThread), "cudaMemsetAsync");
    require(cudaStreamSynchronize(cudaStreamPerThread), "cudaMemset");  // every queue may use it
    return {std::move(block), bytes};
  }

  Buffer allocate_pinned(std::size_t bytes) override {
    if (bytes == 0) return {};
    const OnDevice on(index_);
    void* block = nullptr;
    require(cudaHostAlloc(&block, bytes, cudaHostAllocPortable), cat(bytes, " bytes of pinned memory"));
    std::shared_ptr<std::byte> owner(static_cast<std::byte*>(block), [](std::byte* b) { cudaFreeHost(b); });
    std::memset(block, 0, bytes);
    return {std::move(owner), bytes};
  }

  PinMemory pinner() const override {
    return [device = index_](std::span<std::byte> bytes) { return pin(device, bytes); };
  }

  Queue& compute() override { return compute_; }

  std::unique_ptr<Queue> make_queue() override {
    const OnDevice on(index_);
    cudaStream_t stream = nullptr;
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    return std::make_unique<StreamQueue>(index_, stream, true);
  }

 private:
  const int index_;
  StreamQueue compute_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(const CudaOptions& options) {
  return std::make_unique<CudaDevice>(options);
}

std::optional<int> cuda_index(const Device& device) {
  const auto* const gpu = dynamic_cast<const CudaDevice*>(&device);
  return gpu ? std::optional(gpu->index()) : std::nullopt;
}

std::unique_ptr<Queue> make_cuda_queue(const CudaOptions& options) {
  return std::make_unique<StreamQueue>(options.device, options.stream, false);
}

}  // namespace kith::kernels
