#include <algorithm>

#include <torch/types.h>

#include "kith/train/data/datasets.h"
#include "kith/train/data/text.h"
#include "kith/train/data/token_file.h"

namespace kith::train {
namespace {

// Over a source that cuts samples of `context` numbers and the one that follows: Text or Tokens.
template <class Source>
class SequenceDataset final : public Dataset {
 public:
  template <class... Arguments>
  explicit SequenceDataset(std::int64_t context, const Arguments&... arguments)
      : context_(context), source_(arguments...) {}

  std::uint64_t train_samples() const override { return source_.train_samples(); }
  std::uint64_t validation_samples() const override { return source_.validation_samples(); }
  std::string unit() const override { return "token"; }
  std::int64_t units_per_sample() const override { return context_; }

  Batch train(std::span<const std::uint64_t> samples, std::uint64_t epoch) const override {
    return cut(samples, [&](std::uint64_t sample) { return source_.train(sample, epoch); });
  }
  Batch validation(std::span<const std::uint64_t> samples) const override {
    return cut(samples, [&](std::uint64_t sample) { return source_.validation(sample); });
  }

 private:
  // Each token predicts the one that follows.
  Batch cut(std::span<const std::uint64_t> samples, const auto& tokens_of) const {
    const auto rows = static_cast<std::int64_t>(samples.size());
    const torch::Tensor tokens = torch::empty({rows, context_ + 1}, torch::kInt64);
    auto* to = tokens.data_ptr<std::int64_t>();
    for (const std::uint64_t sample : samples)
      to = std::ranges::copy(tokens_of(sample), to).out;
    return {tokens.slice(1, 0, context_).contiguous(), tokens.slice(1, 1).reshape(-1)};
  }

  const std::int64_t context_;
  const Source source_;
};

}  // namespace

std::shared_ptr<const Dataset> open_text(const std::filesystem::path& file, const Job& job) {
  return std::make_shared<SequenceDataset<Text>>(job.model.context, file, job.data.validation,
                                                 static_cast<std::uint64_t>(job.model.context));
}

std::shared_ptr<const Dataset> open_tokens(const std::filesystem::path& folder, const Job& job) {
  const Tokens::Options options{.context = static_cast<std::uint64_t>(job.model.context),
                                .vocabulary = static_cast<std::uint64_t>(job.model.vocabulary)};
  return std::make_shared<SequenceDataset<Tokens>>(job.model.context, folder, options);
}

}  // namespace kith::train
