#pragma once

#include <cstdint>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kith/train/add_norm.h"

namespace kith::train {

// Layer norm over the last dimension, with a bias or without; torch's own module has both or neither.
class Norm final : public torch::nn::Module {
 public:
  Norm(std::int64_t width, bool has_bias)
      : weight_(register_parameter("weight", torch::ones({width}))),
        bias_(has_bias ? register_parameter("bias", torch::zeros({width})) : torch::Tensor()) {}

  torch::Tensor forward(const torch::Tensor& x) const {
    return torch::layer_norm(x, weight_.sizes(), weight_, bias_);
  }

  // Of x + delta, which may be undefined, and that sum.
  AddNorm after_adding(const torch::Tensor& x, const torch::Tensor& delta) const {
    return add_norm(x, delta, weight_, bias_);
  }

 private:
  torch::Tensor weight_;
  torch::Tensor bias_;
};

}  // namespace kith::train
