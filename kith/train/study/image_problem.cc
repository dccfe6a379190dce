#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/train/data/idx.h"
#include "kith/train/study/problem.h"

namespace kith::train::study {
namespace {

constexpr Eigen::Index kKinds = 10;
constexpr Eigen::Index kTrainSamples = 4096;  // of the training data that a loss is taken of

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using In = Eigen::Map<const Matrix>;
using Out = Eigen::Map<Matrix>;

struct Images {
  Eigen::Index pixels = 0;
  std::vector<std::uint8_t> values, labels;
  Eigen::Index count() const { return static_cast<Eigen::Index>(labels.size()); }
};

Images read_images(const std::filesystem::path& folder, const std::string& set) {
  const std::filesystem::path path = folder / (set + "-images-idx3-ubyte");
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    throw InputError(
        "no such file", path.string(),
        "name the folder of the four IDX files, unpacked, in --data (docs/study.md says where they "
        "come from)");
  }
  Idx images = read_idx(path, 3);
  Idx labels = read_idx(folder / (set + "-labels-idx1-ubyte"), 1);
  if (images.sizes[0] != labels.sizes[0] || images.sizes[0] == 0) {
    throw InputError(cat(images.sizes[0], " images and ", labels.sizes[0], " labels"), path.string(),
                     "take both files from one place");
  }
  if (std::ranges::any_of(labels.bytes, [](std::uint8_t label) { return label >= kKinds; }))
    throw InputError(cat("a label beyond ", kKinds - 1), folder.string(), "images of 10 kinds");
  return {static_cast<Eigen::Index>(images.sizes[1]) * images.sizes[2], std::move(images.bytes),
          std::move(labels.bytes)};
}

// Turns scores into probabilities, row by row, and returns the sum of -log of the labels'.
double soften(Matrix& scores, std::span<const std::uint8_t> labels) {
  double loss = 0;
  for (Eigen::Index r = 0; r < scores.rows(); ++r) {
    auto row = scores.row(r);
    row.array() -= row.maxCoeff();
    row = row.array().exp();
    row /= row.sum();
    loss -= std::log(std::max(row(labels[static_cast<std::size_t>(r)]), 1e-30F));
  }
  return loss;
}

// pixels -> hidden (ReLU) -> 10, or pixels -> 10 without hidden units. Parts: matrix and bias of each layer.
class ImageProblem final : public Problem {
 public:
  explicit ImageProblem(const ProblemOptions& options)
      : options_(options),
        train_(read_images(options.data, "train")),
        test_(read_images(options.data, "t10k")),
        hidden_(options.hidden) {
    if (test_.pixels != train_.pixels)
      throw InputError("images of two sizes", options.data.string(), "take all files from one place");
    std::vector<std::size_t> order(train_.labels.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    Rng rng(hash_words(options.seed, 105));
    for (std::size_t k = order.size(); k > 1; --k)
      std::swap(order[k - 1], order[rng.below(k)]);
    looked_at_.assign(order.begin(),
                      order.begin() + std::min<std::ptrdiff_t>(kTrainSamples, std::ssize(order)));
    if (options.split == Split::by_label)
      std::ranges::stable_sort(order, {}, [&](std::size_t sample) { return train_.labels[sample]; });
    const auto workers = static_cast<std::size_t>(options.workers);
    if (order.size() < workers)
      throw InputError(cat(workers, " workers for ", order.size(), " images"), "workers", "fewer");
    for (std::size_t i = 0; i < workers; ++i) {
      const auto first = order.begin() + static_cast<std::ptrdiff_t>(i * order.size() / workers);
      shards_.emplace_back(first,
                           order.begin() + static_cast<std::ptrdiff_t>((i + 1) * order.size() / workers));
    }
  }

  std::vector<std::size_t> parts() const override {
    const auto pixels = static_cast<std::size_t>(train_.pixels), hidden = static_cast<std::size_t>(hidden_);
    const auto kinds = static_cast<std::size_t>(kKinds);
    if (hidden == 0) return {pixels * kinds, kinds};
    return {pixels * hidden, hidden, hidden * kinds, kinds};
  }

  std::vector<float> start() const override {
    std::vector<float> model;
    Rng rng(hash_words(options_.seed, 106));
    const std::vector<std::size_t> sizes = parts();
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      const auto inputs = static_cast<double>(k == 0 ? train_.pixels : hidden_);
      for (std::size_t e = 0; e < sizes[k]; ++e)
        model.push_back(k % 2 == 1 ? 0.0F : static_cast<float>(rng.normal() / std::sqrt(inputs)));
    }
    return model;
  }

  void gradient(int worker, std::int64_t step, std::span<const float* const> model,
                std::span<float* const> gradient) const override {
    const std::vector<std::size_t>& shard = shards_[static_cast<std::size_t>(worker)];
    Rng rng(hash_words(options_.seed, 107, worker, step));
    std::vector<std::size_t> batch;
    for (int k = 0; k < options_.batch; ++k)
      batch.push_back(shard[rng.below(shard.size())]);
    const auto [x, labels] = take(train_, batch);
    const Eigen::Index last = hidden_ == 0 ? 0 : 2;
    Matrix inner;
    Matrix scores = forward(model, x, inner);
    soften(scores, labels);
    for (std::size_t r = 0; r < labels.size(); ++r)
      scores(static_cast<Eigen::Index>(r), labels[r]) -= 1;
    scores /= static_cast<float>(options_.batch);
    const Matrix& into = hidden_ == 0 ? x : inner;
    Out(gradient[static_cast<std::size_t>(last)], into.cols(), kKinds).noalias() = into.transpose() * scores;
    Out(gradient[static_cast<std::size_t>(last) + 1], 1, kKinds) = scores.colwise().sum();
    if (hidden_ == 0) return;
    Matrix back = scores * In(model[2], hidden_, kKinds).transpose();
    back = (inner.array() > 0).select(back, 0.0F);
    Out(gradient[0], x.cols(), hidden_).noalias() = x.transpose() * back;
    Out(gradient[1], 1, hidden_) = back.colwise().sum();
  }

  Score score(std::span<const float* const> model) const override {
    Score score{.loss = 0, .accuracy = 0};
    over(train_, looked_at_, model, [&](Matrix& scores, std::span<const std::uint8_t> labels) {
      score.loss += soften(scores, labels) / static_cast<double>(looked_at_.size());
    });
    std::vector<std::size_t> all(test_.labels.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    over(test_, all, model, [&](Matrix& scores, std::span<const std::uint8_t> labels) {
      for (Eigen::Index r = 0; r < scores.rows(); ++r) {
        Eigen::Index kind = 0;
        scores.row(r).maxCoeff(&kind);
        if (kind == labels[static_cast<std::size_t>(r)])
          *score.accuracy += 1.0 / static_cast<double>(all.size());
      }
    });
    return score;
  }

 private:
  struct Taken {
    Matrix x;
    std::vector<std::uint8_t> labels;
  };
  static Taken take(const Images& images, std::span<const std::size_t> samples) {
    Taken taken{Matrix(static_cast<Eigen::Index>(samples.size()), images.pixels), {}};
    for (std::size_t r = 0; r < samples.size(); ++r) {
      const std::uint8_t* const from =
          images.values.data() + samples[r] * static_cast<std::size_t>(images.pixels);
      for (Eigen::Index p = 0; p < images.pixels; ++p)
        taken.x(static_cast<Eigen::Index>(r), p) = static_cast<float>(from[p]) / 255.0F - 0.3F;
      taken.labels.push_back(images.labels[samples[r]]);
    }
    return taken;
  }

  Matrix forward(std::span<const float* const> model, const Matrix& x, Matrix& inner) const {
    if (hidden_ == 0) return (x * In(model[0], x.cols(), kKinds)).rowwise() + In(model[1], 1, kKinds).row(0);
    inner = (x * In(model[0], x.cols(), hidden_)).rowwise() + In(model[1], 1, hidden_).row(0);
    inner = inner.cwiseMax(0.0F);
    return (inner * In(model[2], hidden_, kKinds)).rowwise() + In(model[3], 1, kKinds).row(0);
  }

  template <class Use>
  void over(const Images& images, std::span<const std::size_t> samples, std::span<const float* const> model,
            const Use& use) const {
    constexpr std::size_t kAtOnce = 512;
    for (std::size_t first = 0; first < samples.size(); first += kAtOnce) {
      const auto [x, labels] =
          take(images, samples.subspan(first, std::min(kAtOnce, samples.size() - first)));
      Matrix inner;
      Matrix scores = forward(model, x, inner);
      use(scores, labels);
    }
  }

  const ProblemOptions options_;
  const Images train_, test_;
  const Eigen::Index hidden_;
  std::vector<std::vector<std::size_t>> shards_;  // by worker
  std::vector<std::size_t> looked_at_;
};

}  // namespace

std::unique_ptr<Problem> make_images(const ProblemOptions& options) {
  return std::make_unique<ImageProblem>(options);
}

}  // namespace kith::train::study
