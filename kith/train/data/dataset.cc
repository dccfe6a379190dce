#include "kith/train/data/dataset.h"

#include <string_view>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/datasets.h"

namespace kith::train {
namespace {

constexpr ImageScale kMnist{{0.1307f, 0, 0}, {0.3081f, 1, 1}};
constexpr ImageScale kFashion{{0.2860f, 0, 0}, {0.3530f, 1, 1}};
constexpr ImageScale kCifar{{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};

void require_folder(const std::filesystem::path& folder, std::string_view remedy) {
  std::error_code problem;
  if (!std::filesystem::is_directory(folder, problem))
    throw InputError("no such folder", folder.string(), remedy);
}

std::shared_ptr<const Dataset> open_mnist(const std::filesystem::path& folder, const ImageScale& scale,
                                          const Job& job) {
  require_folder(folder, cat("kith data ", job.data.name, " makes it; or put the four IDX files there"));
  ImageSet train = read_mnist(folder, "train");
  return make_images(std::move(train), read_mnist(folder, "t10k"), scale, job);
}

}  // namespace

std::shared_ptr<const Dataset> open_dataset(const Job& job, const DataFolders& folders) try {
  const std::filesystem::path given = job.data.path;
  if (job.data.name == "text") return open_text(given.empty() ? folders.text : given, job);
  if (job.data.name == "mnist") return open_mnist(given.empty() ? folders.mnist : given, kMnist, job);
  if (job.data.name == "fashion-mnist")
    return open_mnist(given.empty() ? folders.fashion_mnist : given, kFashion, job);
  require_folder(given, "docs/workloads.md says how it is made");
  if (job.data.name == "tokens") return open_tokens(given, job);
  if (job.data.name == "pairs") return open_pairs(given, job);
  if (job.data.name == "images") return open_image_folder(given, job);
  ImageSet train = read_cifar10(given, CifarPart::train);
  return make_images(std::move(train), read_cifar10(given, CifarPart::validation), kCifar, job);
} catch (const InputError& error) {
  throw InputError(error.what(), "data.path");
}

}  // namespace kith::train
