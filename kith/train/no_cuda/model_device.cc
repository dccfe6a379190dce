#include "kith/train/model_device.h"

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {

std::unique_ptr<ModelDevice> make_cuda_model_device(torch::Device device) {
  throw InputError(
      cat("device ", device.str()), "module",
      "this kith was built without CUDA: build it with -DKITH_CUDA=ON, or move the module to the CPU");
}

}  // namespace kith::train
