#include "kith/train/data/dataset.h"

#include <algorithm>

#include <torch/torch.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/idx.h"
#include "kith/train/data/text.h"

namespace kith::train {
namespace {

class TextDataset final : public Dataset {
 public:
  TextDataset(const std::filesystem::path& file, double validation, std::int64_t context)
      : context_(context), text_(file, validation, static_cast<std::uint64_t>(context)) {}

  std::uint64_t train_samples() const override { return text_.train_samples(); }
  std::uint64_t validation_samples() const override { return text_.validation_samples(); }
  std::string unit() const override { return "token"; }
  std::int64_t units_per_sample() const override { return context_; }

  Batch train(std::span<const std::uint64_t> samples, std::uint64_t epoch) const override {
    return cut(samples, [&](std::uint64_t sample) { return text_.train(sample, epoch); });
  }
  Batch validation(std::span<const std::uint64_t> samples) const override {
    return cut(samples, [&](std::uint64_t sample) { return text_.validation(sample); });
  }

 private:
  // Each byte predicts the one that follows.
  Batch cut(std::span<const std::uint64_t> samples, const auto& bytes_of) const {
    const auto rows = static_cast<std::int64_t>(samples.size());
    const torch::Tensor bytes = torch::empty({rows, context_ + 1}, torch::kInt64);
    auto* to = bytes.data_ptr<std::int64_t>();
    for (const std::uint64_t sample : samples)
      to = std::ranges::copy(bytes_of(sample), to).out;
    return {bytes.slice(1, 0, context_).contiguous(), bytes.slice(1, 1).reshape(-1)};
  }

  const std::int64_t context_;
  const Text text_;
};

class MnistDataset final : public Dataset {
 public:
  explicit MnistDataset(const std::filesystem::path& folder)
      : train_(read(folder, "train")), validation_(read(folder, "t10k")) {}

  std::uint64_t train_samples() const override { return static_cast<std::uint64_t>(train_.target.size(0)); }
  std::uint64_t validation_samples() const override {
    return static_cast<std::uint64_t>(validation_.target.size(0));
  }
  Batch train(std::span<const std::uint64_t> samples, std::uint64_t) const override {
    return pick(train_, samples);
  }
  Batch validation(std::span<const std::uint64_t> samples) const override {
    return pick(validation_, samples);
  }

 private:
  static Batch read(const std::filesystem::path& folder, const std::string& part) {
    const std::filesystem::path image_file = folder / (part + "-images-idx3-ubyte");
    const Idx images = read_idx(image_file, 3);
    const Idx labels = read_idx(folder / (part + "-labels-idx1-ubyte"), 1);
    if (images.sizes[0] != labels.sizes[0] || images.sizes[1] != 28 || images.sizes[2] != 28 ||
        images.sizes[0] == 0) {
      throw InputError(cat(images.sizes[0], " images of ", images.sizes[1], "x", images.sizes[2], " for ",
                           labels.sizes[0], " labels"),
                       image_file.string(), "wanted: as many labels as images, each 28x28");
    }
    if (*std::ranges::max_element(labels.bytes) > 9) {
      throw InputError(cat("holds the label ", int{*std::ranges::max_element(labels.bytes)}),
                       (folder / (part + "-labels-idx1-ubyte")).string(), "wanted: 0 to 9");
    }
    const auto count = static_cast<std::int64_t>(labels.bytes.size());
    // clone() detaches the tensors from the vectors, which are about to go.
    const torch::Tensor pixels =
        torch::from_blob(const_cast<std::uint8_t*>(images.bytes.data()), {count, 1, 28, 28}, torch::kUInt8)
            .clone();
    const torch::Tensor classes =
        torch::from_blob(const_cast<std::uint8_t*>(labels.bytes.data()), {count}, torch::kUInt8)
            .to(torch::kInt64);
    return {pixels, classes};
  }

  static Batch pick(const Batch& from, std::span<const std::uint64_t> samples) {
    const torch::Tensor rows = torch::empty({static_cast<std::int64_t>(samples.size())}, torch::kInt64);
    std::ranges::copy(samples, rows.data_ptr<std::int64_t>());
    constexpr double kMean = 0.1307;  // of MNIST's training pixels, in [0, 1]
    constexpr double kDeviation = 0.3081;
    const torch::Tensor pixels = from.input.index_select(0, rows).to(torch::kFloat32);
    return {pixels.div_(255).sub_(kMean).div_(kDeviation), from.target.index_select(0, rows)};
  }

  const Batch train_;
  const Batch validation_;
};

}  // namespace

std::shared_ptr<const Dataset> open_dataset(const Job& job, const DataFolders& folders) try {
  const std::filesystem::path given = job.data.path;
  if (job.data.name == "mnist") {
    const std::filesystem::path folder = given.empty() ? folders.mnist : given;
    std::error_code problem;
    if (!std::filesystem::is_directory(folder, problem)) {
      throw InputError("no such folder", folder.string(),
                       "kith data mnist fetches MNIST; or put its four IDX files there");
    }
    return std::make_shared<MnistDataset>(folder);
  }
  return std::make_shared<TextDataset>(given.empty() ? folders.text : given, job.data.validation,
                                       job.model.context);
} catch (const InputError& error) {
  throw InputError(error.what(), "data.path");
}

}  // namespace kith::train
