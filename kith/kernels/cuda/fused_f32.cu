#include "kith/kernels/cuda/fused.cuh"

namespace kith::kernels::cuda {

template <>
cudaError_t launch_fused<float>(const SmallTable<float>& table, std::uint32_t tiles, int,
                                cudaStream_t stream) {
  fused<0, float><<<tiles, kThreads, 0, stream>>>(table);
  return cudaGetLastError();
}

// A model alone, a pair, and a pair on a rounded wire have their loads unrolled.
template <>
cudaError_t launch_fused<float>(const LargeTable<float>& table, std::uint32_t tiles, int sources,
                                cudaStream_t stream) {
  switch (sources) {
    case 1:
      fused<1, float><<<tiles, kThreads, 0, stream>>>(table);
      break;
    case 2:
      fused<2, float><<<tiles, kThreads, 0, stream>>>(table);
      break;
    case 3:
      fused<3, float><<<tiles, kThreads, 0, stream>>>(table);
      break;
    default:
      fused<0, float><<<tiles, kThreads, 0, stream>>>(table);
  }
  return cudaGetLastError();
}

}  // namespace kith::kernels::cuda
