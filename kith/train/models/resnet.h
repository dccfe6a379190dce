#pragma once

#include <memory>

#include "kith/train/models/model.h"

namespace kith::train {

struct ResNetOptions {
  int depth = 50;  // 18 or 50
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
  bool small_stem = false;    // one 3x3 convolution in place of 7x7 with stride 2 and a pooling
  bool channels_last = true;  // how images and weights lie in memory
};

// ResNet with the names, the shapes and the initial draw of torchvision's resnet18 and resnet50 (the stride
// of a bottleneck is on its 3x3 convolution). Input: (batch, channels, height, width); scores: (batch,
// classes). REQUIRES: depth 18 or 50.
std::shared_ptr<Model> make_resnet(const ResNetOptions& options);

}  // namespace kith::train
