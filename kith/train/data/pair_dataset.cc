#include <algorithm>
#include <numeric>

#include <torch/types.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/datasets.h"
#include "kith/train/data/pairs.h"
#include "kith/train/data/token_meta.h"

namespace kith::train {
namespace {

// A training sample is a batch of pairs of about the same length; a validation sample is a pair.
class PairDataset final : public Dataset {
 public:
  PairDataset(const std::filesystem::path& folder, const TokenMeta& meta, const Job& job)
      : begin_(meta.begin),
        end_(meta.end),
        seed_(static_cast<std::uint64_t>(job.train.seed)),
        train_(folder / "train.bin", options_of(meta, job)),
        validation_(folder / "val.bin", options_of(meta, job)),
        batches_(train_.pairs(), static_cast<std::uint64_t>(job.data.batch_tokens)) {}

  std::uint64_t train_samples() const override { return batches_.count(); }
  std::uint64_t validation_samples() const override { return validation_.pairs().size(); }
  std::string unit() const override { return "token"; }
  // On the side of the targets, on average.
  std::int64_t units_per_sample() const override {
    std::uint64_t tokens = 0;
    for (const PairFile::Pair& pair : train_.pairs())
      tokens += pair.target.size() + 1;
    return static_cast<std::int64_t>(std::max<std::uint64_t>(1, tokens / batches_.count()));
  }

  Batch train(std::span<const std::uint64_t> samples, std::uint64_t epoch) const override {
    std::vector<std::uint64_t> numbers;
    for (const std::uint64_t sample : samples) {
      const std::vector<std::uint64_t> part = batches_.batch(sample, seed_, epoch);
      numbers.insert(numbers.end(), part.begin(), part.end());
    }
    return lay(train_.pairs(), numbers);
  }
  Batch validation(std::span<const std::uint64_t> samples) const override {
    return lay(validation_.pairs(), samples);
  }

 private:
  static PairFile::Options options_of(const TokenMeta& meta, const Job& job) {
    return {.end_mark = meta.end,
            .vocabulary = static_cast<std::uint64_t>(job.model.vocabulary),
            .longest = static_cast<std::uint64_t>(job.model.context)};
  }

  // Sources end with the mark; targets begin with one when they are read, and end with it when they are asked
  // for.
  Batch lay(const std::vector<PairFile::Pair>& pairs, std::span<const std::uint64_t> numbers) const {
    std::uint64_t longest = 0;
    for (const std::uint64_t number : numbers)
      longest = std::max(longest, pairs[number].length());
    const auto rows = static_cast<std::int64_t>(numbers.size()), length = static_cast<std::int64_t>(longest);
    Batch batch{torch::full({rows, 2, length}, kNoToken, torch::kInt64),
                torch::full({rows * length}, kNoTarget, torch::kInt64)};
    auto* input = batch.input.data_ptr<std::int64_t>();
    auto* target = batch.target.data_ptr<std::int64_t>();
    for (const std::uint64_t number : numbers) {
      const PairFile::Pair& pair = pairs[number];
      *std::ranges::copy(pair.source, input).out = end_;
      input[length] = begin_;
      std::ranges::copy(pair.target, input + length + 1);
      *std::ranges::copy(pair.target, target).out = end_;
      input += 2 * length;
      target += length;
    }
    return batch;
  }

  const std::int64_t begin_, end_;
  const std::uint64_t seed_;
  const PairFile train_;
  const PairFile validation_;
  const LengthBatches batches_;
};

}  // namespace

std::shared_ptr<const Dataset> open_pairs(const std::filesystem::path& folder, const Job& job) {
  const auto meta = read_token_meta(folder);
  if (!meta || meta->end < 0) {
    throw InputError(meta ? "names no marks of sentences" : "no such file", token_meta_file(folder).string(),
                     "kith data pairs makes the folder");
  }
  if (meta->vocabulary > static_cast<std::uint64_t>(job.model.vocabulary)) {
    throw InputError(
        cat("tells of ", meta->vocabulary, " tokens, and model.vocabulary is ", job.model.vocabulary),
        token_meta_file(folder).string(), cat("set model.vocabulary = ", (meta->vocabulary + 63) / 64 * 64));
  }
  return std::make_shared<PairDataset>(folder, *meta, job);
}

}  // namespace kith::train
