#include "kith/kernels/cuda/fused.cuh"
#include "kith/kernels/cuda/launch.cuh"

namespace kith::kernels::cuda {

template <>
cudaError_t launch_fused<double>(const SmallTable<double>& table, std::uint32_t tiles, int,
                                 cudaStream_t stream) {
  return launch(fused<0, double, SmallTable<double>>, {tiles, kThreads, stream}, table);
}

template <>
cudaError_t launch_fused<double>(const LargeTable<double>& table, std::uint32_t tiles, int,
                                 cudaStream_t stream) {
  return launch(fused<0, double, LargeTable<double>>, {tiles, kThreads, stream}, table);
}

}  // namespace kith::kernels::cuda
