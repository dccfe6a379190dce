// Folders of JPEGs.

#include "kith/train/data/jpeg.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <jpeglib.h>
#include <torch/torch.h>

#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/train/data/datasets.h"
#include "tests/support/failure.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;
using support::failure_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Colour {
  int red, green, blue;
};

// Red grows to the right, green downwards, blue is `blue`.
Colour colour_at(double x, double y, int width, int height, int blue) {
  return {static_cast<int>(255 * x / width), static_cast<int>(255 * y / height), blue};
}

std::vector<std::uint8_t> encode(int width, int height, int blue = 90, bool grey = false) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = ::jpeg_std_error(&errors);
  ::jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  ::jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = grey ? 1 : 3;
  info.in_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
  ::jpeg_set_defaults(&info);
  ::jpeg_set_quality(&info, 95, TRUE);
  ::jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> row;
  for (int y = 0; y < height; ++y) {
    row.clear();
    for (int x = 0; x < width; ++x) {
      const Colour colour = colour_at(x, y, width, height, blue);
      row.push_back(static_cast<std::uint8_t>(colour.red));
      if (grey) continue;
      row.push_back(static_cast<std::uint8_t>(colour.green));
      row.push_back(static_cast<std::uint8_t>(colour.blue));
    }
    JSAMPROW rows = row.data();
    ::jpeg_write_scanlines(&info, &rows, 1);
  }
  ::jpeg_finish_compress(&info);
  std::vector<std::uint8_t> result(bytes, bytes + size);
  ::jpeg_destroy_compress(&info);
  std::free(bytes);
  return result;
}

void save(const fs::path& file, const std::vector<std::uint8_t>& bytes) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

// Every pixel is the colour of its place in the whole image, however small the scale it was decoded at.
void expect_cut(int width, int height, const Crop& crop, std::int64_t side) {
  const std::vector<std::uint8_t> bytes = encode(width, height);
  const std::vector<std::uint8_t> pixels = decode_jpeg(
      {.bytes = bytes, .place = "x.jpg", .side = side, .crop = [&](std::int64_t w, std::int64_t h) {
         EXPECT_EQ(w, width);
         EXPECT_EQ(h, height);
         return crop;
       }});
  ASSERT_EQ(pixels.size(), static_cast<std::size_t>(3 * side * side));
  double worst = 0;
  for (std::int64_t y = 0; y < side; ++y) {
    for (std::int64_t x = 0; x < side; ++x) {
      const std::int64_t seen = crop.mirrored ? side - 1 - x : x;
      const double step_x = static_cast<double>(crop.width) / static_cast<double>(side);
      const double step_y = static_cast<double>(crop.height) / static_cast<double>(side);
      const Colour wanted = colour_at(
          static_cast<double>(crop.left) + (static_cast<double>(seen) + 0.5) * step_x - 0.5,
          static_cast<double>(crop.top) + (static_cast<double>(y) + 0.5) * step_y - 0.5, width, height, 90);
      const std::uint8_t* const got = pixels.data() + 3 * (y * side + x);
      worst = std::max({worst, std::abs(static_cast<double>(got[0]) - wanted.red),
                        std::abs(static_cast<double>(got[1]) - wanted.green),
                        std::abs(static_cast<double>(got[2]) - wanted.blue)});
    }
  }
  EXPECT_LT(worst, 8) << "of 255; crop " << crop.left << "," << crop.top << " " << crop.width << "x"
                      << crop.height;
}

TEST(Jpeg, CutsAndScalesAtEveryScaleOfItsOwn) {
  expect_cut(300, 200, {0, 0, 300, 200, false}, 64);
  expect_cut(300, 200, {37, 51, 120, 90, false}, 32);
  expect_cut(300, 200, {37, 51, 120, 90, true}, 32);
  expect_cut(1000, 800, {400, 300, 600, 500, false}, 32);  // decoded at an eighth
  expect_cut(64, 64, {10, 20, 16, 12, false}, 48);         // scaled up
}

TEST(Jpeg, GreyBecomesColour) {
  const std::vector<std::uint8_t> bytes = encode(64, 64, 0, /*grey=*/true);
  const std::vector<std::uint8_t> pixels =
      decode_jpeg({.bytes = bytes, .place = "g.jpg", .side = 16, .crop = [](std::int64_t w, std::int64_t h) {
                     return Crop{0, 0, w, h, false};
                   }});
  EXPECT_EQ(pixels[0], pixels[1]);
  EXPECT_GT(pixels[3 * 15], 200);
}

TEST(Jpeg, DamagedFilesAreNamed) {
  const std::vector<std::uint8_t> good = encode(100, 80);
  const auto problem = [](std::vector<std::uint8_t> bytes) {
    return failure_of<InputError>([&] {
      decode_jpeg(
          {.bytes = bytes, .place = "dir/bad.jpg", .side = 32, .crop = [](std::int64_t w, std::int64_t h) {
             return Crop{0, 0, w, h, false};
           }});
    });
  };
  EXPECT_EQ(problem(good), "");
  EXPECT_THAT(problem({}), HasSubstr("dir/bad.jpg"));
  EXPECT_THAT(problem({'n', 'o', 't'}), AllOf(HasSubstr("dir/bad.jpg"), HasSubstr("no JPEG")));
  EXPECT_THAT(problem({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(good.size() / 2)}),
              HasSubstr("dir/bad.jpg"));
}

class ImageFolders : public ::testing::Test {
 protected:
  ImageFolders() {
    for (int i = 0; i < 6; ++i) {
      save(path() / "train" / "cat" / cat(i, ".jpg"), encode(60 + i, 50, 20));
      save(path() / "train" / "dog" / cat(i, ".JPEG"), encode(60, 50 + i, 200));
    }
    save(path() / "val" / "cat" / "0.jpg", encode(64, 64, 20));
    save(path() / "val" / "dog" / "0.jpg", encode(64, 64, 200));
    job_.model.name = "resnet18";
    job_.model.classes = 2;
    job_.data.name = "images";
    job_.data.path = path().string();
    job_.data.image_size = 32;
    job_.data.threads = 3;
    job_.data.augment = "crop-flip";
  }
  fs::path path() const { return folder_.path(); }
  std::string problem() const {
    return failure_of<InputError>([&] { open_dataset(job_, {}); });
  }

  const TempFolder folder_{"kith-jpegs"};
  Job job_;
};

TEST_F(ImageFolders, GiveBatchesThatThreadsDecode) {
  const auto data = open_dataset(job_, {});
  EXPECT_EQ(data->train_samples(), 12u);
  EXPECT_EQ(data->validation_samples(), 2u);
  const std::vector<std::uint64_t> samples{11, 0, 5, 6};
  const Batch batch = data->train(samples, 3);
  EXPECT_EQ(batch.input.sizes(), torch::IntArrayRef({4, 3, 32, 32}));
  EXPECT_TRUE(batch.input.is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(batch.target.equal(torch::tensor({1, 0, 0, 1}, torch::kInt64)));
  EXPECT_NEAR(batch.input[1][2].mean().item<double>(), (20 / 255.0 - 0.406) / 0.225, 0.05);
  EXPECT_NEAR(batch.input[0][2].mean().item<double>(), (200 / 255.0 - 0.406) / 0.225, 0.05);
  EXPECT_TRUE(data->train(samples, 3).input.equal(batch.input));
  EXPECT_FALSE(data->train(samples, 4).input.equal(batch.input)) << "other crops in another epoch";
  const std::vector<std::uint64_t> both{0, 1};
  EXPECT_TRUE(data->validation(both).target.equal(torch::tensor({0, 1}, torch::kInt64)));
}

TEST_F(ImageFolders, BadFoldersAndFilesAreNamed) {
  job_.model.classes = 3;
  EXPECT_EQ(problem(), "") << "more classes than folders do no harm";
  fs::create_directories(path() / "val" / "horse");
  EXPECT_THAT(problem(), AllOf(HasSubstr("val/horse"), HasSubstr("no such class")));
  fs::remove(path() / "val" / "horse");
  save(path() / "train" / "eel" / "0.jpg", encode(40, 40));
  save(path() / "train" / "fox" / "0.jpg", encode(40, 40));
  EXPECT_THAT(problem(), AllOf(HasSubstr("holds 4 classes"), HasSubstr("model.classes = 4")));
  fs::remove_all(path() / "train" / "eel");
  fs::remove_all(path() / "train" / "fox");
  save(path() / "train" / "cat" / "3.jpg", {1, 2, 3});
  const auto data = open_dataset(job_, {});
  const std::vector<std::uint64_t> fourth{3};
  EXPECT_THAT(failure_of<InputError>([&] { data->train(fourth, 0); }), HasSubstr("train/cat/3.jpg"));
  fs::remove_all(path() / "val");
  EXPECT_THAT(problem(), HasSubstr("val"));
}

}  // namespace
}  // namespace kith::train
