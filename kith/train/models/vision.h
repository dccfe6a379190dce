#pragma once

#include <memory>

#include "kith/train/models/model.h"

namespace kith::train {

// Two convolutions of 3x3 (width / 2, then width channels), each with batch norm, ReLU and 2x2 pooling, then
// two linear layers. Input: (batch, 1, 28, 28) pixels; scores: (batch, 10).
std::shared_ptr<Model> make_cnn(std::int64_t width);

// `layers` hidden layers of `width` with ReLU, over the pixels as one vector.
std::shared_ptr<Model> make_mlp(std::int64_t layers, std::int64_t width);

}  // namespace kith::train
