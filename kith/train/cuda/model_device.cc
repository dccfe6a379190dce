#include "kith/train/model_device.h"

#include <utility>

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/cuda.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/kernels/cuda/cuda_device.h"

namespace kith::train {
namespace {

class CudaModelDevice final : public ModelDevice {
 public:
  explicit CudaModelDevice(torch::Device device)
      : torch_device_(device),
        stream_(current()),
        device_(kernels::make_cuda_device({device.index(), stream_.stream()})) {}

  torch::Device torch_device() const override { return torch_device_; }
  kernels::Device& device() override { return *device_; }
  void enter() override {
    if (const auto other = other_stream()) device_->compute().after(other->mark());
  }
  void leave() override {
    if (const auto other = other_stream()) other->after(device_->compute().mark());
  }

  PendingValue read(const torch::Tensor& numbers) override {
    torch::Tensor here =
        torch::empty({numbers.numel()}, torch::TensorOptions().dtype(torch::kFloat64).pinned_memory(true));
    here.copy_(numbers.detach().to(torch::kFloat64).reshape({-1}), /*non_blocking=*/true);
    enter();
    return {std::move(here), device_->compute().mark()};
  }

 private:
  c10::cuda::CUDAStream current() const { return c10::cuda::getCurrentCUDAStream(torch_device_.index()); }
  // Torch's stream of now where that is another one.
  std::unique_ptr<kernels::Queue> other_stream() const {
    const c10::cuda::CUDAStream now = current();
    return now == stream_ ? nullptr : kernels::make_cuda_queue({torch_device_.index(), now.stream()});
  }

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
