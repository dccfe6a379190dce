#include "kith/kernels/cuda/fused.cuh"
#include "kith/kernels/cuda/launch.cuh"

namespace kith::kernels::cuda {

template <>
cudaError_t launch_fused<float>(const SmallTable<float>& table, std::uint32_t tiles, int,
                                cudaStream_t stream) {
  return launch(fused<0, float, SmallTable<float>>, {tiles, kThreads, stream}, table);
}

// A model alone, a pair, and a pair on a rounded wire have their loads unrolled.
template <>
cudaError_t launch_fused<float>(const LargeTable<float>& table, std::uint32_t tiles, int sources,
                                cudaStream_t stream) {
  const Grid grid{tiles, kThreads, stream};
  switch (sources) {
    case 1:
      return launch(fused<1, float, LargeTable<float>>, grid, table);
    case 2:
      return launch(fused<2, float, LargeTable<float>>, grid, table);
    case 3:
      return launch(fused<3, float, LargeTable<float>>, grid, table);
    default:
      return launch(fused<0, float, LargeTable<float>>, grid, table);
  }
}

}  // namespace kith::kernels::cuda
