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

// The model that the job names, freshly drawn from its seed, with model.weights copied in: the same on every
// worker. Draws from the process-wide generator, so threads take turns. InputError when the weights do not
// fit.
std::shared_ptr<Model> make_model(const Job& job);

// The same for a job of model.name "transformer", without weights.
class Translator;  // kith/train/models/transformer.h
std::shared_ptr<Translator> make_translator(const Job& job);

std::int64_t parameter_count(const torch::nn::Module& model);

}  // namespace kith::train
