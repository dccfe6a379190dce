#include "kith/kernels/cuda/device.h"

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::kernels::cuda {

void require(cudaError_t status, std::string_view place) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // it is reported here, and nobody else's
  throw Error(cat(cudaGetErrorString(status), " (", cudaGetErrorName(status), ")"), place);
}

OnDevice::OnDevice(int device) : device_(device) {
  require(cudaGetDevice(&before_), "current CUDA device");
  if (before_ != device_) require(cudaSetDevice(device_), cat("CUDA device ", device_));
}

OnDevice::~OnDevice() {
  if (before_ != device_) cudaSetDevice(before_);
}

std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  require(cudaMalloc(&memory, bytes), cat("allocating ", bytes, " bytes on the GPU"));
  return {static_cast<std::byte*>(memory), [](std::byte* p) { cudaFree(p); }};
}

}  // namespace kith::kernels::cuda
