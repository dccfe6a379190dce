// Data sets of images in memory.

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/train/data/augment.h"
#include "kith/train/data/datasets.h"
#include "tests/support/failure.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;
using support::failure_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kImage = 3072;

// Image i has label i mod 10, and all its pixels of channel c are 10 i + c.
void write_cifar(const fs::path& file, int images, int first = 0) {
  std::ofstream out(file, std::ios::binary);
  for (int i = first; i < first + images; ++i) {
    out.put(static_cast<char>(i % 10));
    for (int c = 0; c < 3; ++c)
      out << std::string(kImage / 3, static_cast<char>((10 * i + c) % 256));
  }
}

void write_all(const fs::path& folder) {
  for (int b = 1; b <= 5; ++b)
    write_cifar(folder / cat("data_batch_", b, ".bin"), 4, 4 * (b - 1));
  write_cifar(folder / "test_batch.bin", 6);
}

Job cifar_job(const fs::path& folder) {
  Job job;
  job.model.name = "resnet18";
  job.data.name = "cifar10";
  job.data.path = folder.string();
  return job;
}

TEST(Cifar10, ReadsTheBinaryVersion) {
  const TempFolder folder("kith-images");
  write_all(folder.path());
  const auto data = open_dataset(cifar_job(folder.path()), {});
  EXPECT_EQ(data->train_samples(), 20u);
  EXPECT_EQ(data->validation_samples(), 6u);
  const std::vector<std::uint64_t> samples{13, 2};
  const Batch batch = data->train(samples, 0);
  EXPECT_EQ(batch.input.sizes(), torch::IntArrayRef({2, 3, 32, 32}));
  EXPECT_EQ(batch.target[0].item<int>(), 3);
  EXPECT_NEAR(batch.input[0][0].mean().item<double>(), (130 / 255.0 - 0.4914) / 0.2470, 1e-4);
  EXPECT_NEAR(batch.input[1][2].max().item<double>(), (22 / 255.0 - 0.4465) / 0.2616, 1e-4);
}

TEST(Cifar10, BadFilesAreNamedWithTheirPlace) {
  const TempFolder folder("kith-images");
  const fs::path path = folder.path();
  const auto problem = [&] { return failure_of<InputError>([&] { open_dataset(cifar_job(path), {}); }); };
  EXPECT_THAT(problem(), HasSubstr("data_batch_1.bin"));
  write_all(path);
  EXPECT_EQ(problem(), "");
  std::ofstream(path / "data_batch_3.bin", std::ios::app) << "x";
  EXPECT_THAT(problem(), AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("12293 bytes")));
  write_all(path);
  {
    std::fstream file(path / "test_batch.bin", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2 * 3073);
    file.put(77);
  }
  EXPECT_THAT(problem(), AllOf(HasSubstr("test_batch.bin"), HasSubstr("the label 77 at byte 6146")));
}

// One bright pixel shows where an image went.
TEST(Augmentation, MovesAndMirrorsTrainingImagesOnly) {
  ImageSet set;
  set.pixels.assign(28 * 28, 0);
  set.pixels[10 * 28 + 7] = 255;
  set.labels = {4};
  Job job;
  job.data.augment = "crop-flip";
  job.train.seed = 5;
  const auto data = make_images(set, set, {{0, 0, 0}, {1, 1, 1}}, job);
  const std::vector<std::uint64_t> first{0};
  int elsewhere = 0;
  for (std::uint64_t epoch = 0; epoch < 50; ++epoch) {
    const torch::Tensor image = data->train(first, epoch).input[0][0];
    const Crop crop = moved_crop(28, 28, 4, {5, epoch, 0});
    EXPECT_EQ(image.sum().item<float>(), 1);
    const std::int64_t row = 10 - crop.top, column = crop.mirrored ? 27 - (7 - crop.left) : 7 - crop.left;
    EXPECT_EQ(image[row][column].item<float>(), 1) << "epoch " << epoch;
    elsewhere += row != 10 || column != 7 ? 1 : 0;
    EXPECT_TRUE(image.equal(data->train(first, epoch).input[0][0])) << "the same epoch, the same image";
  }
  EXPECT_GT(elsewhere, 40);
  EXPECT_EQ(data->validation(first).input[0][0][10][7].item<float>(), 1);
  job.data.augment = "none";
  EXPECT_EQ(
      make_images(set, set, {{0, 0, 0}, {1, 1, 1}}, job)->train(first, 3).input[0][0][10][7].item<float>(),
      1);
}

}  // namespace
}  // namespace kith::train
