#pragma once

#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kith/engine/engine.h"

namespace kith::train {

// The floating-point buffers of a module (BatchNorm's running statistics) and their mean over all workers, in
// double. Integer buffers stay each worker's own. One thread.
class BufferMean {
 public:
  explicit BufferMean(const torch::nn::Module& module);

  bool empty() const { return buffers_.empty(); }

  // Collective, by the engine's operations: everybody's buffers become rank 0's. Before the first step.
  void share_start(engine::Engine& engine);

  // Collective likewise: the buffers become the workers' mean, until restore() puts back what they were.
  void average(engine::Engine& engine);
  void restore();

 private:
  void gather_own();
  void scatter();

  std::vector<torch::Tensor> buffers_;
  std::vector<double> flat_;
  std::vector<torch::Tensor> saved_;
};

}  // namespace kith::train
