#pragma once

#include <torch/types.h>

namespace kith::train {

// The mean over the rows of -log softmax(scores)[target], a scalar with a gradient, as torch's cross_entropy
// under autocast gives it: in float whatever the type of the scores (in double for those). On a GPU the
// scores are read once in each direction, and nothing of their size is made but their gradient. REQUIRES:
// scores (rows, classes); target (rows), int64, each a class.
torch::Tensor cross_entropy(const torch::Tensor& scores, const torch::Tensor& target);

// The same by torch's own operations, on any device. Rows whose target is -100 do not count. With `smoothing`
// s a target is 1 - s of its class and s of all classes evenly.
torch::Tensor plain_cross_entropy(const torch::Tensor& scores, const torch::Tensor& target,
                                  double smoothing = 0);

}  // namespace kith::train
