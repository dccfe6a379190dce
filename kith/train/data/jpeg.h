#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kith/train/data/augment.h"

namespace kith::train {

// Whether this kith reads JPEGs: it was built where libjpeg is.
bool reads_jpeg();

struct JpegRequest {
  std::span<const std::uint8_t> bytes;  // of the file
  std::string place;                    // its name in errors
  std::int64_t side = 224;              // of the result
  // The part to cut, for an image of this width and height; it lies within.
  std::function<Crop(std::int64_t width, std::int64_t height)> crop;
};

// The part, scaled to side x side: red, green, blue, pixel by pixel, row by row. Only what is needed is
// decoded, at the smallest of JPEG's own scales that is large enough. InputError names the file that is none,
// is cut short or damaged. Any thread.
std::vector<std::uint8_t> decode_jpeg(const JpegRequest& request);

}  // namespace kith::train
