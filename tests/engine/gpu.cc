#include "kith/kernels/cuda/cuda_device.h"
#include "tests/engine/engine_support.h"

namespace kith::engine {

std::vector<Place> gpu_places() {
  return {Place::gpu};
}
std::unique_ptr<kernels::Device> make_gpu() {
  return kernels::make_cuda_device();
}

}  // namespace kith::engine
