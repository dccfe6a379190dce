#include "kith/train/add_norm.h"

namespace kith::train {

AddNorm add_norm(const torch::Tensor& x, const torch::Tensor& delta, const torch::Tensor& weight,
                 const torch::Tensor& bias) {
  return plain_add_norm(x, delta, weight, bias);
}

}  // namespace kith::train
