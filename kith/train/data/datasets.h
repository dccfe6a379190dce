#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "kith/train/data/dataset.h"

namespace kith::train {

// The data sets that open_dataset picks from. Each throws InputError when its files are missing or bad.

// A file's bytes, the last share of them for validation.
std::shared_ptr<const Dataset> open_text(const std::filesystem::path& file, const Job& job);
// train.bin and val.bin (token_file.h).
std::shared_ptr<const Dataset> open_tokens(const std::filesystem::path& folder, const Job& job);
// The same files as pairs of sentences (pairs.h).
std::shared_ptr<const Dataset> open_pairs(const std::filesystem::path& folder, const Job& job);

// Images in memory.
struct ImageSet {
  std::int64_t channels = 1, height = 28, width = 28;
  std::vector<std::uint8_t> pixels;  // image by image, channel by channel, row by row
  std::vector<std::uint8_t> labels;
};
struct ImageScale {
  // Of training pixels in [0, 1]: pixels become (x - mean) / deviation.
  std::array<float, 3> mean, deviation;
};
std::shared_ptr<const Dataset> make_images(ImageSet train, ImageSet validation, const ImageScale& scale,
                                           const Job& job);
// The four IDX files of MNIST and Fashion-MNIST.
ImageSet read_mnist(const std::filesystem::path& folder, const std::string& part);
// data_batch_1.bin to data_batch_5.bin, and test_batch.bin.
enum class CifarPart : std::uint8_t { train, validation };
ImageSet read_cifar10(const std::filesystem::path& folder, CifarPart part);

// FOLDER/train/CLASS/*.jpg and FOLDER/val/CLASS/*.jpg.
std::shared_ptr<const Dataset> open_image_folder(const std::filesystem::path& folder, const Job& job);

}  // namespace kith::train
