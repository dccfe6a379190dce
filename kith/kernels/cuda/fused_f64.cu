#include "kith/kernels/cuda/fused.cuh"

namespace kith::kernels::cuda {

template <>
cudaError_t launch_fused<double>(const SmallTable<double>& table, std::uint32_t tiles, int,
                                 cudaStream_t stream) {
  fused<0, double><<<tiles, kThreads, 0, stream>>>(table);
  return cudaGetLastError();
}

template <>
cudaError_t launch_fused<double>(const LargeTable<double>& table, std::uint32_t tiles, int,
                                 cudaStream_t stream) {
  fused<0, double><<<tiles, kThreads, 0, stream>>>(table);
  return cudaGetLastError();
}

}  // namespace kith::kernels::cuda
