#include "kith/train/add_norm.h"

#include <torch/nn.h>

namespace kith::train {

AddNorm plain_add_norm(const torch::Tensor& x, const torch::Tensor& delta, const torch::Tensor& weight,
                       const torch::Tensor& bias) {
  const torch::Tensor sum = delta.defined() ? x + delta : x;
  return {sum, torch::layer_norm(sum, weight.sizes(), weight, bias, kNormEps)};
}

}  // namespace kith::train
