#include "tests/engine/engine_support.h"

namespace kith::engine {

std::vector<Memory> gpu_memories() {
  return {};
}
std::unique_ptr<kernels::Device> make_gpu() {
  return nullptr;
}

}  // namespace kith::engine
