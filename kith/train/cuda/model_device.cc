#include "kith/train/model_device.h"

#include <utility>

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/cuda.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/kernels/cuda/cuda_device.h"

namespace kith::train {
namespace {

// Everything on `later` from now on runs after what is on `earlier`.
void order(const c10::cuda::CUDAStream& earlier, const c10::cuda::CUDAStream& later) {
  if (earlier == later) return;
  at::cuda::CUDAEvent event;
  event.record(earlier);
  event.block(later);
}

class CudaModelDevice final : public ModelDevice {
 public:
  explicit CudaModelDevice(torch::Device device)
      : torch_device_(device),
        stream_(current()),
        device_(kernels::make_cuda_device({device.index(), stream_.stream()})) {}

  torch::Device torch_device() const override { return torch_device_; }
  kernels::Device& device() override { return *device_; }
  void enter() override { order(current(), stream_); }
  void leave() override { order(stream_, current()); }

  Reading read(const torch::Tensor& number) override {
    torch::Tensor here = torch::empty({}, torch::TensorOptions().dtype(torch::kFloat64).pinned_memory(true));
    here.copy_(number.detach().to(torch::kFloat64).reshape({}), /*non_blocking=*/true);
    enter();
    return {std::move(here), device_->compute().mark()};
  }

 private:
  c10::cuda::CUDAStream current() const { return c10::cuda::getCurrentCUDAStream(torch_device_.index()); }

  const torch::Device torch_device_;
  const c10::cuda::CUDAStream stream_;
  const std::unique_ptr<kernels::Device> device_;
};

}  // namespace

std::unique_ptr<ModelDevice> make_cuda_model_device(torch::Device device) {
  if (!torch::cuda::is_available()) {
    throw InputError(cat("device ", device.str()), "module", "torch finds no GPU on this machine");
  }
  if (!device.has_index()) device = torch::Device(torch::kCUDA, c10::cuda::current_device());
  if (static_cast<std::size_t>(device.index()) >= torch::cuda::device_count()) {
    throw InputError(cat("device ", device.str()), "module",
                     cat("this machine has ", torch::cuda::device_count(), " GPUs, counted from 0"));
  }
  return std::make_unique<CudaModelDevice>(device);
}

}  // namespace kith::train
