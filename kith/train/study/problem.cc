#include "kith/train/study/problem.h"

#include <algorithm>
#include <cmath>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"

namespace kith::train::study {
namespace {

// f_i(x) = 1/2 sum_e a_ie (x_e - b_ie)^2, a_ie from 0.1 to 1; gradients with noise of 0.3. Curvatures differ,
// so that the mean model learns less where workers are apart.
class QuadraticProblem final : public Problem {
 public:
  explicit QuadraticProblem(const ProblemOptions& options) : options_(options) {
    std::vector<double> weighted(kSize, 0.0);
    mean_curvature_.assign(kSize, 0.0);
    for (int i = 0; i < options.workers; ++i) {
      Rng rng(hash_words(options.seed, 101, i));
      std::vector<double>& target = targets_.emplace_back(kSize);
      std::vector<double>& curvature = curvatures_.emplace_back(kSize);
      for (std::size_t e = 0; e < kSize; ++e) {
        target[e] = (options.split == Split::by_label ? 3 : 1) * rng.normal();
        curvature[e] = 0.1 + 0.9 * rng.uniform();
        mean_curvature_[e] += curvature[e] / options.workers;
        weighted[e] += curvature[e] * target[e] / options.workers;
      }
    }
    for (std::size_t e = 0; e < kSize; ++e)
      best_.push_back(weighted[e] / mean_curvature_[e]);
  }

  std::vector<std::size_t> parts() const override { return {kSize}; }
  std::vector<float> start() const override { return std::vector<float>(kSize, 2.0F); }

  void gradient(int worker, std::int64_t step, std::span<const float* const> model,
                std::span<float* const> gradient) const override {
    Rng rng(hash_words(options_.seed, 102, worker, step));
    const std::vector<double>& target = targets_[static_cast<std::size_t>(worker)];
    const std::vector<double>& curvature = curvatures_[static_cast<std::size_t>(worker)];
    const double noise = 0.3 * std::sqrt(32.0 / options_.batch);
    for (std::size_t e = 0; e < kSize; ++e)
      gradient[0][e] = static_cast<float>(curvature[e] * (model[0][e] - target[e]) + noise * rng.normal());
  }

  // Over what the best model has.
  Score score(std::span<const float* const> model) const override {
    double loss = 0;
    for (std::size_t e = 0; e < kSize; ++e)
      loss += 0.5 * mean_curvature_[e] * (model[0][e] - best_[e]) * (model[0][e] - best_[e]);
    return {.loss = loss};
  }

 private:
  static constexpr std::size_t kSize = 256;
  const ProblemOptions options_;
  std::vector<std::vector<double>> targets_, curvatures_;  // by worker
  std::vector<double> mean_curvature_, best_;
};

// log(1 + exp(-y x.w)) + penalty * sum w^2 / (1 + w^2), points from two clouds on either side of a point that
// is not the origin, so that who has more of one cloud pulls elsewhere.
class LogisticProblem final : public Problem {
 public:
  explicit LogisticProblem(const ProblemOptions& options) : options_(options) {
    Rng rng(hash_words(options.seed, 103));
    std::vector<double> way(kSize), middle(kSize);
    for (std::vector<double>* const vector : {&way, &middle})
      for (double& value : *vector)
        value = rng.normal() / std::sqrt(static_cast<double>(kSize));
    for (int i = 0; i < options.workers; ++i) {
      Worker& worker = workers_.emplace_back();
      for (std::size_t s = 0; s < kSamples; ++s) {
        // Sorted by label, a worker has nine points of its own cloud for one of the other.
        const bool own = rng.uniform() < (options.split == Split::by_label ? 0.9 : 0.5);
        const double label = own == (i % 2 == 0) ? 1 : -1;
        worker.labels.push_back(label);
        for (std::size_t e = 0; e < kSize; ++e)
          worker.points.push_back(middle[e] + label * way[e] + rng.normal());
      }
    }
  }

  std::vector<std::size_t> parts() const override { return {kSize}; }
  std::vector<float> start() const override { return std::vector<float>(kSize, 0.0F); }

  void gradient(int worker, std::int64_t step, std::span<const float* const> model,
                std::span<float* const> gradient) const override {
    Rng rng(hash_words(options_.seed, 104, worker, step));
    const Worker& own = workers_[static_cast<std::size_t>(worker)];
    std::vector<double> sum(kSize, 0.0);
    for (int k = 0; k < options_.batch; ++k) {
      const std::size_t sample = rng.below(kSamples);
      const double* const point = own.points.data() + sample * kSize;
      const double slope = -own.labels[sample] / (1 + std::exp(margin(own, sample, model[0])));
      for (std::size_t e = 0; e < kSize; ++e)
        sum[e] += slope * point[e] / options_.batch;
    }
    for (std::size_t e = 0; e < kSize; ++e) {
      const double w = model[0][e], below = 1 + w * w;
      gradient[0][e] = static_cast<float>(sum[e] + kPenalty * 2 * w / (below * below));
    }
  }

  Score score(std::span<const float* const> model) const override {
    double loss = 0;
    for (const Worker& worker : workers_) {
      for (std::size_t s = 0; s < kSamples; ++s)
        loss += std::log1p(std::exp(-margin(worker, s, model[0])));
    }
    loss /= static_cast<double>(kSamples * workers_.size());
    for (std::size_t e = 0; e < kSize; ++e) {
      const double square = static_cast<double>(model[0][e]) * model[0][e];
      loss += kPenalty * square / (1 + square);
    }
    return {.loss = loss};
  }

 private:
  static constexpr std::size_t kSize = 32, kSamples = 200;
  static constexpr double kPenalty = 0.01;
  struct Worker {
    std::vector<double> points;  // one after the other
    std::vector<double> labels;
  };

  static double margin(const Worker& worker, std::size_t sample, const float* model) {
    double sum = 0;
    for (std::size_t e = 0; e < kSize; ++e)
      sum += worker.points[sample * kSize + e] * model[e];
    return worker.labels[sample] * sum;
  }

  const ProblemOptions options_;
  std::vector<Worker> workers_;
};

}  // namespace

std::unique_ptr<Problem> make_quadratic(const ProblemOptions& options) {
  return std::make_unique<QuadraticProblem>(options);
}

std::unique_ptr<Problem> make_logistic(const ProblemOptions& options) {
  return std::make_unique<LogisticProblem>(options);
}

std::vector<std::string> problem_names() {
  return {"quadratic", "logistic", "mnist", "fashion"};
}

std::unique_ptr<Problem> make_problem(const ProblemOptions& options) {
  if (options.workers < 1) throw InputError(cat(options.workers), "workers", "at least 1");
  if (options.batch < 1) throw InputError(cat(options.batch), "batch", "at least 1");
  if (options.hidden < 0)
    throw InputError(cat(options.hidden), "hidden", "0 for softmax regression, or more");
  if (options.name == "quadratic") return make_quadratic(options);
  if (options.name == "logistic") return make_logistic(options);
  if (options.name == "mnist" || options.name == "fashion") return make_images(options);
  throw InputError(cat("'", options.name, "' is not a problem"), "problem",
                   suggest(options.name, problem_names()));
}

}  // namespace kith::train::study
