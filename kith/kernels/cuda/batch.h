#pragma once

#include "kith/kernels/cuda/device.h"
#include "kith/kernels/cuda/table.h"

namespace kith::kernels::cuda {

// Fills tables with passes and launches each when it is full. Launches what is left by finish().
template <class T, class TableOfT>
class Batch {
 public:
  explicit Batch(cudaStream_t stream) : stream_(stream) {}

  // Error when the device refuses the work. REQUIRES: the pass was checked.
  void add(const Pass<T>& pass);
  void finish();

 private:
  TableOfT table_;
  std::size_t sources_ = 0;
  std::uint64_t tiles_ = 0;
  cudaStream_t stream_;
};

extern template class Batch<float, SmallTable<float>>;
extern template class Batch<float, LargeTable<float>>;
extern template class Batch<double, SmallTable<double>>;
extern template class Batch<double, LargeTable<double>>;

}  // namespace kith::kernels::cuda
