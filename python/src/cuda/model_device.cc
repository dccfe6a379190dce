#include "python/src/model_device.h"

#include "kith/kernels/cuda/cuda_device.h"

namespace kith::python {
namespace {

CUstream_st* stream_at(std::uintptr_t handle) {
  return reinterpret_cast<CUstream_st*>(handle);
}

class CudaModelDevice final : public ModelDevice {
 public:
  CudaModelDevice(int gpu, std::uintptr_t stream)
      : gpu_(gpu), stream_(stream), device_(kernels::make_cuda_device({gpu, stream_at(stream)})) {}

  kernels::Device& device() override { return *device_; }
  void enter(std::uintptr_t stream) override {
    if (stream != stream_) device_->compute().after(queue(stream)->mark());
  }
  void leave(std::uintptr_t stream) override {
    if (stream != stream_) queue(stream)->after(device_->compute().mark());
  }

 private:
  std::unique_ptr<kernels::Queue> queue(std::uintptr_t stream) const {
    return kernels::make_cuda_queue({gpu_, stream_at(stream)});
  }

  const int gpu_;
  const std::uintptr_t stream_;
  const std::unique_ptr<kernels::Device> device_;
};

}  // namespace

std::unique_ptr<ModelDevice> make_cuda_model_device(int gpu, std::uintptr_t stream) {
  return std::make_unique<CudaModelDevice>(gpu, stream);
}

bool built_with_cuda() {
  return true;
}

}  // namespace kith::python
