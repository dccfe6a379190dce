#pragma once

#include <memory>
#include <vector>

#include <torch/types.h>

#include "kith/kernels/device.h"

namespace kith::train {

// Numbers that torch computes, on their way to the host. Asking for them does not wait for work that torch
// was given later.
class PendingValue {
 public:
  PendingValue() = default;
  PendingValue(torch::Tensor value, kernels::Mark mark) : value_(std::move(value)), mark_(std::move(mark)) {}
  // Waits until it is there. REQUIRES: one number.
  double get() const { return values().at(0); }
  // Waits until they are there.
  std::vector<double> values() const {
    kernels::wait(mark_);
    const torch::Tensor wide = value_.to(torch::kFloat64).contiguous();
    const double* const first = wide.data_ptr<double>();
    return {first, first + wide.numel()};
  }

 private:
  torch::Tensor value_;  // in host memory
  kernels::Mark mark_;
};

// Where a module's parameters lie, as torch and as the engine know it. The engine's compute queue is torch's
// stream of the time when this is made. One thread at a time.
class ModelDevice {
 public:
  virtual ~ModelDevice() = default;

  virtual torch::Device torch_device() const = 0;
  virtual kernels::Device& device() = 0;

  // Where torch works on another stream by now: what the engine is given from here on runs after what torch
  // was given (enter), and what torch is given after what the engine was (leave). The host does not wait.
  virtual void enter() = 0;
  virtual void leave() = 0;

  virtual PendingValue read(const torch::Tensor& numbers) = 0;
};

// InputError for a device that this build, or this machine, does not have.
std::unique_ptr<ModelDevice> make_model_device(torch::Device device);

// The same for a GPU; in builds without CUDA it always throws.
std::unique_ptr<ModelDevice> make_cuda_model_device(torch::Device device);

}  // namespace kith::train
