#pragma once

#include <functional>
#include <memory>
#include <string>

#include <torch/nn/module.h>

#include "bench/common/lap.h"
#include "bench/gpu_training/job.h"
#include "kith/engine/world_parts.h"
#include "kith/train/data/dataset.h"
#include "kith/train/data_parallel.h"
#include "kith/train/gradient_graphs.h"

namespace kith::bench {

// A model in training by kith, in one mode (bench/common/contestant.h), with this worker's share of the data.
// The world outlives it.
class Trainee {
 public:
  Trainee(const engine::WorldParts& world, const GpuJob& job, const std::string& mode);

  // Everybody meets and steps `untimed` times; then the clock runs for `timed` steps, until the device has
  // done them all. The host never waits for the device in between. REQUIRES: timed > 0.
  Lap run(int untimed, int timed);

  double consensus_distance() { return model_->consensus_distance(); }
  std::int64_t parameters() const;

 private:
  void step(Lap& lap);
  void wait_for_device() const;

  const engine::WorldParts& world_;
  const GpuJob job_;
  std::shared_ptr<torch::nn::Module> net_;
  train::Batch batch_;
  std::function<torch::Tensor(const train::Batch&)> loss_;  // a forward pass
  torch::Tensor last_loss_;
  std::unique_ptr<train::DecentralizedDataParallel> model_;
  std::unique_ptr<train::GradientGraphs> graphs_;  // null: passes are not recorded
};

}  // namespace kith::bench
