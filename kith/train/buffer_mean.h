#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kith/engine/engine.h"

namespace kith::train {

// The floating-point buffers of a module (BatchNorm's running statistics) and their mean over all workers, in
// double. Integer buffers stay each worker's own. One thread.
class BufferMean {
 public:
  // Collective where the module has such buffers.
  BufferMean(const torch::nn::Module& module, const engine::World& world,
             const engine::EngineOptions& options);

  bool empty() const { return buffers_.empty(); }

  // Collective: everybody's buffers become rank 0's. At most once.
  void share_start();

  // Collective: the buffers become the workers' mean, until restore() puts back what they were.
  void average();
  void restore();

 private:
  void gather_own();
  void scatter(const torch::Tensor& flat);

  std::vector<torch::Tensor> buffers_;
  torch::Tensor flat_;  // the engine's only segment
  std::vector<torch::Tensor> saved_;
  std::unique_ptr<engine::Engine> engine_;  // last: its segment is flat_
};

}  // namespace kith::train
