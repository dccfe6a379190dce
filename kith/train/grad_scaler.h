#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <torch/types.h>

#include "kith/train/data_parallel.h"

namespace kith::train {

struct GradScalerOptions {
  double scale = 65536;  // at the start
  double growth = 2;     // factor after `interval` good steps in a row
  double backoff = 0.5;  // factor after a step whose gradients held inf or NaN
  std::int64_t interval = 2000;
};

// Keeps the small gradients of fp16 arithmetic from becoming zero: the loss is multiplied by a scale before
// backward, the gradients by its inverse in the step. A step whose gradients overflowed mixes but does not
// move, and the scale shrinks; after many good steps it grows. With awc, atc, dsgt and sgp every worker finds
// its own scale; with all-reduce the mean overflows for all of them at once, so their scales stay equal. One
// thread.
//
//   GradScaler scaler;                                    // Options::non_finite = NonFinite::skip
//   loop: model.zero_grad(); scaler.scale(loss).backward(); scaler.step(model);
class GradScaler {
 public:
  // InputError for factors on the wrong side of 1 and numbers that are not positive.
  explicit GradScaler(const GradScalerOptions& options = {});

  torch::Tensor scale(const torch::Tensor& loss) const { return loss * scale_; }

  // model.step() with the gradients scaled back, before clipping; then adapts the scale.
  // REQUIRES: the model skips gradients that hold inf or NaN.
  StepReport step(DecentralizedDataParallel& model, const StepOptions& options = {});

  double scale() const { return scale_; }

  // To be kept in a checkpoint.
  std::vector<std::byte> state() const;
  // InputError unless it is what state() gave.
  void restore(std::span<const std::byte> state);

 private:
  const GradScalerOptions options_;
  double scale_;
  std::int64_t good_steps_ = 0;  // in a row
};

}  // namespace kith::train
