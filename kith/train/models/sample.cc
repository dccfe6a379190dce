#include "kith/train/models/sample.h"

#include <algorithm>

#include <torch/torch.h>

#include "kith/base/check.h"
#include "kith/base/rng.h"

namespace kith::train {
namespace {

// `scores`: of one prediction, in host memory.
std::int64_t draw(torch::Tensor scores, const SampleOptions& options, Rng& rng) {
  if (options.vocabulary > 0) scores = scores.slice(0, 0, options.vocabulary);
  if (options.temperature == 0) return scores.argmax().item<std::int64_t>();
  scores = scores.to(torch::kFloat64).div(options.temperature);
  const std::int64_t among = options.top > 0 ? std::min(options.top, scores.size(0)) : scores.size(0);
  const auto [values, places] = scores.topk(among);
  const torch::Tensor reached = values.softmax(0).cumsum(0);
  const auto place = torch::searchsorted(reached, torch::tensor({rng.uniform()}, torch::kFloat64));
  return places[std::min(place.item<std::int64_t>(), among - 1)].item<std::int64_t>();
}

}  // namespace

void sample_tokens(Model& model, std::vector<std::int64_t> tokens, const SampleOptions& options,
                   const std::function<void(std::int64_t)>& next) {
  KITH_CHECK(!tokens.empty(), "a prompt has a token");
  const torch::NoGradGuard no_grad;
  model.eval();
  const torch::Device device = model.parameters().front().device();
  Rng rng(hash_words(options.seed));
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const auto seen = std::min<std::int64_t>(static_cast<std::int64_t>(tokens.size()), options.context);
    const std::vector<std::int64_t> last(tokens.end() - seen, tokens.end());
    const torch::Tensor input = torch::tensor(last, torch::kInt64).unsqueeze(0).to(device);
    tokens.push_back(draw(model.forward(input).select(0, seen - 1).cpu(), options, rng));
    next(tokens.back());
  }
}

}  // namespace kith::train
