#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <torch/types.h>

#include "kith/train/model_device.h"

namespace kith::train {

// Note [Rates for noisy gradients]
// Adam divides by the root of v, the mean of squared gradients: G^2 + s^2, with G the true gradient and s^2
// the noise of the batch it was taken from. All-reduce with n workers divides by the root of G^2 + s^2/n.
// Workers that average models divide by more, so their steps are too short, and most where noise is most of
// the gradient. With rho = s^2 / (G^2 + s^2) of a parameter the remedy is
//
//   lr' = lr / sqrt(1 - rho + rho/n)
//
// for that parameter, and the rate of all-reduce is the right one again. rho comes from the two parts of a
// batch: their noise is independent, so the difference of their gradients holds noise alone. It is one number
// for a parameter, and it changes slowly: measuring it in some steps is enough, and nothing is sent between
// nodes.

// The share of noise in the gradients of each parameter. One thread.
class NoiseMeter {
 public:
  // Makes numbers that workers measured the same on all that must agree; called by every one of them. False
  // when it could not: the numbers are worth nothing.
  using Agree = std::function<bool(std::span<double>)>;
  explicit NoiseMeter(std::size_t parameters, Agree agree = {});

  // These are the gradients of a part of this step's batch, `share` of its samples, before the others are
  // added to them. Copies them. Undefined ones have none. REQUIRES: 0 < share < 1.
  void take_part(const std::vector<torch::Tensor>& gradients, double share);
  // These are the gradients of the whole batch. Without take_part() before it nothing happens; else the
  // shares of noise change from the next step on. Does not wait for the device.
  void take_whole(const std::vector<torch::Tensor>& gradients, ModelDevice& device);

  // Takes up what was measured last; agrees on it, so that all come here after the same measurements.
  void collect();

  // Agrees on the running means, which may have come apart; all that must agree come here. Nothing where each
  // is for itself.
  void agree_anew();

  // From 0 to 1; 0 before the first measurement and for a parameter that never had a gradient. Where workers
  // agree, of what was collected.
  double share(std::size_t parameter);
  // The same of all parameters together.
  double whole_share();

  // Two numbers per parameter, the running means of noise and of the squared gradient.
  std::vector<double> state();
  // REQUIRES: as many numbers as state() has.
  void restore(const std::vector<double>& state);

 private:
  const Agree agree_;                // null: each for itself
  std::vector<torch::Tensor> part_;  // empty: this step is not measured
  double part_share_ = 0;
  std::optional<PendingValue> measured_;  // of the last measured step
  std::vector<double> noise_;
  std::vector<double> square_;
};

// What lr is multiplied by. `workers` average models; the gradient of each is the mean of `inside` workers'.
double noise_rate(double share, int workers, int inside);

}  // namespace kith::train
