#pragma once

#include <cstdint>
#include <memory>

#include "kith/kernels/device.h"

namespace kith::python {

// Where a model's tensors lie. One thread at a time.
class ModelDevice {
 public:
  virtual ~ModelDevice() = default;
  virtual kernels::Device& device() = 0;
  // What the engine is given from here on runs after what `stream` was given (enter), and what `stream` is
  // given after what the engine was (leave). The host does not wait.
  virtual void enter(std::uintptr_t stream) = 0;
  virtual void leave(std::uintptr_t stream) = 0;
};

// GPU number `gpu` with `stream` (a cudaStream_t) as the engine's own. In builds without CUDA an InputError.
std::unique_ptr<ModelDevice> make_cuda_model_device(int gpu, std::uintptr_t stream);
// Whether this build has GPUs at all.
bool built_with_cuda();

}  // namespace kith::python
