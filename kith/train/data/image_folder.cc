#include <algorithm>
#include <array>
#include <cctype>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

#include <torch/types.h>

#include "kith/base/error.h"
#include "kith/base/job_threads.h"
#include "kith/base/text.h"
#include "kith/train/data/augment.h"
#include "kith/train/data/datasets.h"
#include "kith/train/data/file.h"
#include "kith/train/data/jpeg.h"

namespace kith::train {
namespace {

namespace fs = std::filesystem;

// Of ImageNet's training images, as everybody uses them.
constexpr std::array<float, 3> kMean{0.485f, 0.456f, 0.406f};
constexpr std::array<float, 3> kDeviation{0.229f, 0.224f, 0.225f};

struct File {
  fs::path path;
  std::int64_t label = 0;
};

bool is_jpeg(const fs::path& file) {
  std::string ending = file.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".jpg" || ending == ".jpeg";
}

std::vector<std::string> folders_in(const fs::path& folder) {
  std::error_code problem;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder, problem)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  if (names.empty())
    throw InputError("holds no folders of classes", folder.string(),
                     "wanted: train/CLASS/*.jpg, val/CLASS/*.jpg");
  std::ranges::sort(names);
  return names;
}

// Sorted, so that every machine numbers them alike.
std::vector<File> list(const fs::path& part, const std::vector<std::string>& classes) {
  std::vector<File> files;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const std::size_t before = files.size();
    std::error_code problem;
    for (const auto& entry : fs::directory_iterator(part / classes[label], problem)) {
      if (is_jpeg(entry.path())) files.push_back({entry.path(), static_cast<std::int64_t>(label)});
    }
    std::ranges::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end(), {}, &File::path);
  }
  if (files.empty()) throw InputError("holds no JPEGs", part.string(), "wanted: CLASS/*.jpg");
  return files;
}

// Runs jobs of one call among those of others, and knows its own failures.
class Together {
 public:
  Together(JobThreads& threads, std::size_t jobs) : threads_(threads), left_(jobs) {}

  void submit(std::function<void()> job) {
    threads_.submit([this, job = std::move(job)] {
      try {
        job();
        finish(nullptr);
      } catch (...) {
        finish(std::current_exception());
      }
    });
  }
  void wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return left_ == 0; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void finish(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (failure && !failure_) failure_ = std::move(failure);
    --left_;
    ended_.notify_all();  // under the lock: whoever waits takes this object away
  }

  JobThreads& threads_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::condition_variable ended_;
  std::size_t left_;
  std::exception_ptr failure_;
};

class ImageFolder final : public Dataset {
 public:
  ImageFolder(const fs::path& folder, const Job& job)
      : side_(job.data.image_size),
        augments_(job.data.augment == "crop-flip"),
        seed_(static_cast<std::uint64_t>(job.train.seed)),
        classes_(folders_in(folder / "train")),
        train_(list(folder / "train", classes_)),
        validation_(list(folder / "val", classes_)),
        threads_(static_cast<int>(job.data.threads)) {
    if (static_cast<std::int64_t>(classes_.size()) > job.model.classes) {
      throw InputError(cat("holds ", classes_.size(), " classes, and model.classes is ", job.model.classes),
                       (folder / "train").string(), cat("set model.classes = ", classes_.size()));
    }
    for (const std::string& name : folders_in(folder / "val")) {
      if (!std::ranges::binary_search(classes_, name))
        throw InputError(cat("there is no such class in ", folder / "train"),
                         (folder / "val" / name).string());
    }
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t p = 0; p < 256; ++p)
        values_[c][p] = (static_cast<float>(p) / 255 - kMean[c]) / kDeviation[c];
    }
  }

  std::uint64_t train_samples() const override { return train_.size(); }
  std::uint64_t validation_samples() const override { return validation_.size(); }

  Batch train(std::span<const std::uint64_t> samples, std::uint64_t epoch) const override {
    return load(train_, samples, [&](std::uint64_t sample) -> Cut {
      if (!augments_) return middle_crop;
      return [draw = Draw{seed_, epoch, sample}](std::int64_t w, std::int64_t h) {
        return random_crop(w, h, draw);
      };
    });
  }
  Batch validation(std::span<const std::uint64_t> samples) const override {
    return load(validation_, samples, [](std::uint64_t) -> Cut { return middle_crop; });
  }

 private:
  using Cut = std::function<Crop(std::int64_t, std::int64_t)>;

  // (samples, 3, side, side), channels last: pixel by pixel, as a JPEG is decoded.
  Batch load(const std::vector<File>& files, std::span<const std::uint64_t> samples,
             const auto& cut_of) const {
    const auto count = static_cast<std::int64_t>(samples.size());
    const torch::Tensor pixels = torch::empty({count, side_, side_, 3}, torch::kFloat32);
    const torch::Tensor labels = torch::empty({count}, torch::kInt64);
    Together jobs(threads_, samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const File& file = files[samples[i]];
      labels.data_ptr<std::int64_t>()[i] = file.label;
      float* const to = pixels.data_ptr<float>() + static_cast<std::int64_t>(i) * 3 * side_ * side_;
      jobs.submit([this, &file, cut = cut_of(samples[i]), to] { decode(file, cut, to); });
    }
    jobs.wait();
    return {pixels.permute({0, 3, 1, 2}), labels};
  }

  void decode(const File& file, const Cut& cut, float* to) const {
    const std::vector<std::uint8_t> bytes = read_bytes(file.path);
    const std::vector<std::uint8_t> pixels =
        decode_jpeg({.bytes = bytes, .place = file.path.string(), .side = side_, .crop = cut});
    for (std::size_t at = 0; at < pixels.size(); ++at)
      to[at] = values_[at % 3][pixels[at]];
  }

  const std::int64_t side_;
  const bool augments_;
  const std::uint64_t seed_;
  const std::vector<std::string> classes_;
  const std::vector<File> train_;
  const std::vector<File> validation_;
  std::array<std::array<float, 256>, 3> values_{};  // of a pixel, by colour
  mutable JobThreads threads_;
};

}  // namespace

std::shared_ptr<const Dataset> open_image_folder(const fs::path& folder, const Job& job) {
  if (!reads_jpeg()) {
    throw InputError("this kith was built without libjpeg", folder.string(),
                     "install libjpeg62-turbo-dev and build again");
  }
  return std::make_shared<ImageFolder>(folder, job);
}

}  // namespace kith::train
