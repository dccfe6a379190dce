#include "kith/train/model_device.h"

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

class HostModelDevice final : public ModelDevice {
 public:
  torch::Device torch_device() const override { return torch::kCPU; }
  kernels::Device& device() override { return kernels::host_device(); }
  void enter() override {}
  void leave() override {}
  PendingValue read(const torch::Tensor& numbers) override { return {numbers.detach().clone(), nullptr}; }
};

}  // namespace

std::unique_ptr<ModelDevice> make_model_device(torch::Device device) {
  if (device.is_cpu()) return std::make_unique<HostModelDevice>();
  if (device.is_cuda()) return make_cuda_model_device(device);
  throw InputError(cat("device ", device.str()), "module", "kith trains on the CPU and on CUDA devices");
}

}  // namespace kith::train
