#include <algorithm>
#include <array>
#include <utility>

#include <torch/types.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/augment.h"
#include "kith/train/data/datasets.h"
#include "kith/train/data/file.h"
#include "kith/train/data/idx.h"

namespace kith::train {
namespace {

constexpr std::int64_t kMargin = 4;  // pixels that a crop moves by at most, as is usual for 28x28 and 32x32
constexpr std::size_t kCifarImage = std::size_t{3} * 32 * 32;

class ImagesInMemory final : public Dataset {
 public:
  ImagesInMemory(ImageSet train, ImageSet validation, const ImageScale& scale, const Job& job)
      : train_(std::move(train)),
        validation_(std::move(validation)),
        augments_(job.data.augment == "crop-flip"),
        seed_(static_cast<std::uint64_t>(job.train.seed)) {
    for (std::size_t c = 0; c < values_.size(); ++c) {
      for (std::size_t p = 0; p < 256; ++p)
        values_[c][p] = (static_cast<float>(p) / 255 - scale.mean[c]) / scale.deviation[c];
    }
  }

  std::uint64_t train_samples() const override { return train_.labels.size(); }
  std::uint64_t validation_samples() const override { return validation_.labels.size(); }

  Batch train(std::span<const std::uint64_t> samples, std::uint64_t epoch) const override {
    return pick(train_, samples, [&](std::uint64_t sample) {
      return augments_ ? moved_crop(train_.width, train_.height, kMargin, {seed_, epoch, sample})
                       : whole(train_);
    });
  }
  Batch validation(std::span<const std::uint64_t> samples) const override {
    return pick(validation_, samples, [&](std::uint64_t) { return whole(validation_); });
  }

 private:
  static Crop whole(const ImageSet& set) { return {0, 0, set.width, set.height, false}; }

  Batch pick(const ImageSet& set, std::span<const std::uint64_t> samples, const auto& crop_of) const {
    const auto count = static_cast<std::int64_t>(samples.size());
    Batch batch{torch::empty({count, set.channels, set.height, set.width}, torch::kFloat32),
                torch::empty({count}, torch::kInt64)};
    auto* pixels = batch.input.data_ptr<float>();
    auto* label = batch.target.data_ptr<std::int64_t>();
    for (const std::uint64_t sample : samples) {
      pixels = copy(set, sample, crop_of(sample), pixels);
      *label++ = set.labels[sample];
    }
    return batch;
  }

  // What lies outside of the image is black. Returns where the next image goes.
  float* copy(const ImageSet& set, std::uint64_t sample, const Crop& crop, float* to) const {
    const std::int64_t size = set.height * set.width;
    for (std::int64_t c = 0; c < set.channels; ++c) {
      const auto& values = values_[static_cast<std::size_t>(c)];
      const std::uint8_t* const from =
          set.pixels.data() + (static_cast<std::int64_t>(sample) * set.channels + c) * size;
      for (std::int64_t y = 0; y < set.height; ++y) {
        const std::int64_t row = y + crop.top;
        for (std::int64_t x = 0; x < set.width; ++x) {
          const std::int64_t column = crop.left + (crop.mirrored ? set.width - 1 - x : x);
          const bool inside = row >= 0 && row < set.height && column >= 0 && column < set.width;
          *to++ = values[inside ? from[row * set.width + column] : 0];
        }
      }
    }
    return to;
  }

  const ImageSet train_;
  const ImageSet validation_;
  const bool augments_;
  const std::uint64_t seed_;
  std::array<std::array<float, 256>, 3> values_{};  // of a pixel, by channel
};

}  // namespace

std::shared_ptr<const Dataset> make_images(ImageSet train, ImageSet validation, const ImageScale& scale,
                                           const Job& job) {
  return std::make_shared<ImagesInMemory>(std::move(train), std::move(validation), scale, job);
}

ImageSet read_mnist(const std::filesystem::path& folder, const std::string& part) {
  const std::filesystem::path image_file = folder / (part + "-images-idx3-ubyte");
  const std::filesystem::path label_file = folder / (part + "-labels-idx1-ubyte");
  Idx images = read_idx(image_file, 3);
  Idx labels = read_idx(label_file, 1);
  if (images.sizes[0] != labels.sizes[0] || images.sizes[1] != 28 || images.sizes[2] != 28 ||
      images.sizes[0] == 0) {
    throw InputError(cat(images.sizes[0], " images of ", images.sizes[1], "x", images.sizes[2], " for ",
                         labels.sizes[0], " labels"),
                     image_file.string(), "wanted: as many labels as images, each 28x28");
  }
  const int largest = *std::ranges::max_element(labels.bytes);
  if (largest > 9) throw InputError(cat("holds the label ", largest), label_file.string(), "wanted: 0 to 9");
  return {.pixels = std::move(images.bytes), .labels = std::move(labels.bytes)};
}

ImageSet read_cifar10(const std::filesystem::path& folder, CifarPart part) {
  const bool trains = part == CifarPart::train;
  ImageSet set{.channels = 3, .height = 32, .width = 32, .pixels = {}, .labels = {}};
  for (int i = 1; i <= (trains ? 5 : 1); ++i) {
    const std::filesystem::path file = folder / (trains ? cat("data_batch_", i, ".bin") : "test_batch.bin");
    const std::vector<std::uint8_t> bytes = read_bytes(file);
    if (bytes.empty() || bytes.size() % (1 + kCifarImage) != 0) {
      throw InputError(cat("has ", bytes.size(), " bytes, which are no images of 1 + ", kCifarImage),
                       file.string(), "the binary version of CIFAR-10, unpacked");
    }
    for (std::size_t at = 0; at < bytes.size(); at += 1 + kCifarImage) {
      if (bytes[at] > 9) {
        throw InputError(cat("holds the label ", int{bytes[at]}, " at byte ", at), file.string(),
                         "wanted: 0 to 9; CIFAR-100 is another data set");
      }
      set.labels.push_back(bytes[at]);
      const auto image = bytes.begin() + static_cast<std::ptrdiff_t>(at) + 1;
      set.pixels.insert(set.pixels.end(), image, image + static_cast<std::ptrdiff_t>(kCifarImage));
    }
  }
  return set;
}

}  // namespace kith::train
