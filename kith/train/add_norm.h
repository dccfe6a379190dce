#pragma once

#include <torch/types.h>

namespace kith::train {

// What lies between two products of matrices in a transformer's block with norms before them.
struct AddNorm {
  torch::Tensor sum;     // x + delta; x itself where there is no delta
  torch::Tensor normed;  // the layer norm of the sum over its last dimension, times weight, plus bias
};

// `delta` and `bias` may be undefined. Both results have gradients. On a GPU under autocast it is one pass
// over memory in each direction: the sum stays in float, and `normed` has autocast's type, because a product
// follows.
AddNorm add_norm(const torch::Tensor& x, const torch::Tensor& delta, const torch::Tensor& weight,
                 const torch::Tensor& bias);

// The same by torch's own operations, on any device.
AddNorm plain_add_norm(const torch::Tensor& x, const torch::Tensor& delta, const torch::Tensor& weight,
                       const torch::Tensor& bias);

// Of every layer norm here, and torch's own default.
constexpr double kNormEps = 1e-5;

}  // namespace kith::train
