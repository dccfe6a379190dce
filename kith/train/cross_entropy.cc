#include "kith/train/cross_entropy.h"

#include <torch/nn.h>

namespace kith::train {

torch::Tensor plain_cross_entropy(const torch::Tensor& scores, const torch::Tensor& target,
                                  double smoothing) {
  const bool is_double = scores.scalar_type() == torch::kFloat64;
  return torch::nn::functional::cross_entropy(
      is_double ? scores : scores.to(torch::kFloat32), target,
      torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(smoothing));
}

}  // namespace kith::train
