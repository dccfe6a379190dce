#pragma once

#include <memory>
#include <vector>

#include "kith/train/config/job.h"
#include "kith/train/data/loader.h"
#include "kith/train/data_parallel.h"
#include "kith/train/grad_scaler.h"
#include "kith/train/gradient_graphs.h"
#include "kith/train/models/model.h"

namespace kith::train {

// Whether the loss is scaled before backward.
bool scales_loss(const Job& job);

// Forward and backward of a step. One thread. Everything referred to outlives it.
class GradientPass {
 public:
  // InputError when the job wants passes recorded and this LibTorch cannot.
  GradientPass(const Job& job, Model& model, DecentralizedDataParallel& wrapped, GradScaler& scaler);

  // Whether the next step measures noise (optimizer.noise_every).
  bool measures_noise() const;
  // The gradients of the whole step, from the loader's next batches, add up in the parameters. Where noise is
  // measured the batches are parted in the middle; one batch is cut in two. Returns the losses, whose sum
  // over train.accumulate is the step's.
  std::vector<PendingValue> run(Loader& loader);

 private:
  // The loss counts by `weight`.
  void accumulate(const Batch& batch, double weight = 1);

  const Job& job_;
  Model& model_;
  DecentralizedDataParallel& wrapped_;
  GradScaler& scaler_;
  std::unique_ptr<GradientGraphs> graphs_;  // null: passes are not recorded
  std::vector<PendingValue> losses_;
};

}  // namespace kith::train
