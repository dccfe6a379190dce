#pragma once

#include <future>
#include <memory>
#include <span>

#include "kith/gossip/completions.h"
#include "kith/kernels/device.h"

namespace kith::engine {

// The norm of a step's gradients, which stays on the device unless somebody asks for it. One thread.
class GradientNorm {
 public:
  // `precise`: squares are formed in double; where a model has fp64 parameters.
  GradientNorm(gossip::DeviceWork& work, bool precise);

  // *found, which lies on the device, becomes 1 where an element is inf or NaN, else 0.
  void find_non_finite(std::span<const kernels::Vector> vectors, float* found);

  // |scale| times the norm of all vectors together. The number is there when the device has computed it.
  std::shared_future<double> measure(std::span<const kernels::Vector> vectors, double scale);

  // Where the device finds the factor that clips what was measured last to the norm `most`. Valid until the
  // next measure().
  const double* clip(double most);

 private:
  gossip::DeviceWork& work_;
  const std::unique_ptr<kernels::Kernels<float>> kernels_f32_;  // null where squares are formed in double
  const std::unique_ptr<kernels::Kernels<double>> kernels_f64_;
  const kernels::Buffer numbers_;  // on the device: the sum of squares, the factor
  const kernels::Buffer sum_;      // on the host
};

}  // namespace kith::engine
