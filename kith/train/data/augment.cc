#include "kith/train/data/augment.h"

#include <algorithm>
#include <cmath>

#include "kith/base/rng.h"

namespace kith::train {
namespace {

constexpr double kLeastShare = 0.08;
constexpr double kNarrowest = 3.0 / 4, kWidest = 4.0 / 3;
constexpr int kTries = 10;
constexpr double kMiddle = 224.0 / 256;

Rng rng_of(const Draw& draw) {
  return Rng(hash_words(draw.seed, draw.epoch, draw.sample));
}

std::int64_t below(Rng& rng, std::int64_t bound) {
  return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(bound)));
}

bool coin(Rng& rng) {
  return rng.below(2) == 1;
}

Crop centred(std::int64_t width, std::int64_t height, double crop_width, double crop_height) {
  Crop crop;
  crop.width = std::clamp<std::int64_t>(std::llround(crop_width), 1, width);
  crop.height = std::clamp<std::int64_t>(std::llround(crop_height), 1, height);
  crop.left = (width - crop.width) / 2;
  crop.top = (height - crop.height) / 2;
  return crop;
}

}  // namespace

Crop moved_crop(std::int64_t width, std::int64_t height, std::int64_t margin, const Draw& draw) {
  Rng rng = rng_of(draw);
  const std::int64_t left = below(rng, 2 * margin + 1) - margin;
  const std::int64_t top = below(rng, 2 * margin + 1) - margin;
  return {left, top, width, height, coin(rng)};
}

Crop random_crop(std::int64_t width, std::int64_t height, const Draw& draw) {
  Rng rng = rng_of(draw);
  const bool mirrored = coin(rng);
  const auto w = static_cast<double>(width), h = static_cast<double>(height);
  for (int i = 0; i < kTries; ++i) {
    const double area = w * h * (kLeastShare + (1 - kLeastShare) * rng.uniform());
    const double sides = std::exp(std::log(kNarrowest) + rng.uniform() * std::log(kWidest / kNarrowest));
    const std::int64_t across = std::llround(std::sqrt(area * sides));
    const std::int64_t down = std::llround(std::sqrt(area / sides));
    if (across < 1 || across > width || down < 1 || down > height) continue;
    const std::int64_t left = below(rng, width - across + 1), top = below(rng, height - down + 1);
    return {left, top, across, down, mirrored};
  }
  Crop crop = centred(width, height, std::min(w, h * kWidest), std::min(h, w / kNarrowest));
  crop.mirrored = mirrored;
  return crop;
}

Crop middle_crop(std::int64_t width, std::int64_t height) {
  const double side = kMiddle * static_cast<double>(std::min(width, height));
  return centred(width, height, side, side);
}

}  // namespace kith::train
