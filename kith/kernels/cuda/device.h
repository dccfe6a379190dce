#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include <cuda_runtime_api.h>

namespace kith::kernels::cuda {

// Error "PLACE: WHAT CUDA SAYS" unless `status` is success.
void require(cudaError_t status, std::string_view place);

// Makes `device` current on the calling thread, and what was current before at the end of its life.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
  int device_ = 0;
};

// `bytes` of memory of the current device, 256-byte aligned, from cudaMalloc (so that it can be exported to
// other processes). Error when there is not enough. Null for 0 bytes.
std::shared_ptr<std::byte> allocate(std::size_t bytes);

}  // namespace kith::kernels::cuda
