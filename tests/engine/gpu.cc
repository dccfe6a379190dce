#include "kith/kernels/cuda/cuda_device.h"
#include "tests/engine/engine_support.h"

namespace kith::engine {

std::vector<Memory> gpu_memories() {
  return {Memory::gpu};
}
std::unique_ptr<kernels::Device> make_gpu() {
  return kernels::make_cuda_device();
}

}  // namespace kith::engine
