#include "kith/train/run/evaluate.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <torch/torch.h>

namespace kith::train {
namespace {

constexpr std::uint64_t kMostAtOnce = 256;

struct Sums {
  double loss = 0;
  double right = 0;
  double predictions = 0;
};

// This rank's part of `wanted` samples spread evenly over all.
std::vector<std::uint64_t> share_of(std::uint64_t all, std::uint64_t wanted, Rank rank, int workers) {
  const std::uint64_t count = wanted == 0 ? all : std::min(wanted, all);
  std::vector<std::uint64_t> samples;
  for (auto k = static_cast<std::uint64_t>(rank); k < count; k += static_cast<std::uint64_t>(workers))
    samples.push_back(k * all / count);
  return samples;
}

Sums measure(Model& model, torch::Device device, const Dataset& dataset,
             std::span<const std::uint64_t> samples, std::uint64_t at_once) {
  const torch::NoGradGuard no_grad;
  Sums sums;
  for (std::size_t first = 0; first < samples.size(); first += at_once) {
    const Batch batch =
        dataset.validation(samples.subspan(first, std::min<std::size_t>(at_once, samples.size() - first)));
    const torch::Tensor target = batch.target.to(device);
    const torch::Tensor scores = model.forward(batch.input.to(device));
    sums.loss += torch::nn::functional::cross_entropy(
                     scores, target, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
                     .item<double>();
    sums.right += scores.argmax(1).eq(target).sum().item<double>();
    sums.predictions += target.ne(kNoTarget).sum().item<double>();
  }
  return sums;
}

double total(DecentralizedDataParallel& wrapped, double value) {
  const std::vector<double> all = wrapped.gather(value);
  return std::accumulate(all.begin(), all.end(), 0.0);
}

}  // namespace

EvalMetrics evaluate(DecentralizedDataParallel& wrapped, Model& model, const Dataset& dataset,
                     const Job& job) {
  EvalMetrics metrics;
  metrics.step = wrapped.steps();
  const auto samples =
      share_of(dataset.validation_samples(), static_cast<std::uint64_t>(job.train.eval_samples),
               wrapped.world().rank(), wrapped.world().size());
  const std::uint64_t at_once =
      std::clamp<std::uint64_t>(static_cast<std::uint64_t>(job.train.batch), 16, kMostAtOnce);
  Sums own;
  {
    const auto average = wrapped.average();
    metrics.consensus_distance = average.consensus_distance();
    wrapped.eval();
    own = measure(model, wrapped.device(), dataset, samples, at_once);
    wrapped.train();
  }
  const double predictions = total(wrapped, own.predictions);
  metrics.loss = total(wrapped, own.loss) / predictions;
  metrics.accuracy = total(wrapped, own.right) / predictions;
  return metrics;
}

}  // namespace kith::train
