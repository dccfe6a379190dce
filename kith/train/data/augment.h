#pragma once

#include <cstdint>

namespace kith::train {

// A part of an image, in pixels, and whether it is seen in a mirror.
struct Crop {
  std::int64_t left = 0, top = 0, width = 0, height = 0;
  bool mirrored = false;
};

// Which sample of which epoch in which run is asked for: whoever asks again gets the same crop.
struct Draw {
  std::uint64_t seed, epoch, sample;
};

// As large as the image, moved by up to `margin` in each direction: it may reach over the edges.
Crop moved_crop(std::int64_t width, std::int64_t height, std::int64_t margin, const Draw& draw);

// A share of 8 to 100% of the image, sides of 3:4 to 4:3; where ten tries do not fit, the largest in the
// middle within these sides.
Crop random_crop(std::int64_t width, std::int64_t height, const Draw& draw);

// The square in the middle, 224/256 of the shorter side: what is cut for evaluation.
Crop middle_crop(std::int64_t width, std::int64_t height);

}  // namespace kith::train
