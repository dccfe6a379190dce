#pragma once

#include <type_traits>

#include <cuda_runtime.h>

namespace kith::kernels::cuda {

struct Grid {
  unsigned blocks = 1;
  unsigned threads = 1;
  cudaStream_t stream = nullptr;
};

// The status of this very launch; what others left as the thread's last error plays no part.
template <class... Parameters>
cudaError_t launch(void (*kernel)(Parameters...), const Grid& grid,
                   const std::type_identity_t<Parameters>&... arguments) {
  void* addresses[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid.blocks, grid.threads, addresses, 0,
                          grid.stream);
}

}  // namespace kith::kernels::cuda
