#pragma once

#include <cstdint>
#include <memory>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kith/train/config/job.h"

namespace kith::train {

// A network that gives a score to each class: for a batch the scores are (predictions, classes).
class Model : public torch::nn::Module {
 public:
  using torch::nn::Module::Module;
  virtual torch::Tensor forward(const torch::Tensor& input) = 0;
};

// The model that the job names, freshly drawn from its seed: the same on every worker. Draws from the
// process-wide generator, so threads take turns.
std::shared_ptr<Model> make_model(const Job& job);

std::int64_t parameter_count(const torch::nn::Module& model);

}  // namespace kith::train
