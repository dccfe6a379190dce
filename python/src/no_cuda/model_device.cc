#include "python/src/model_device.h"

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::python {

std::unique_ptr<ModelDevice> make_cuda_model_device(int gpu, std::uintptr_t) {
  throw InputError(cat("device cuda:", gpu), "model",
                   "this kith was built without CUDA: configure with -DKITH_CUDA=ON");
}

bool built_with_cuda() {
  return false;
}

}  // namespace kith::python
