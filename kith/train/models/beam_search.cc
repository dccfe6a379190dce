#include "kith/train/models/beam_search.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <torch/torch.h>

#include "kith/base/check.h"

namespace kith::train {
namespace {

using Tokens = std::vector<std::int64_t>;

struct Candidate {
  Tokens tokens;  // with the mark that they begin with
  double log_probability = 0;
};

double lowered(double log_probability, std::size_t length, double penalty) {
  return log_probability / std::pow((5 + static_cast<double>(length)) / 6, penalty);
}

// The search for one source.
class Search {
 public:
  Search(Translator& model, const Tokens& source, const BeamOptions& options)
      : model_(model), options_(options), device_(model.parameters().front().device()) {
    encoded_ = model.encode(torch::tensor(source, torch::kInt64).unsqueeze(0).to(device_));
  }

  Tokens run() {
    std::vector<Candidate> alive{{{options_.begin}, 0}};
    for (std::int64_t length = 1; length <= options_.longest && !alive.empty(); ++length) {
      alive = extended(alive);
      if (best_ && !alive.empty() && cannot_win(alive.front(), length)) break;
    }
    if (!best_ && !alive.empty()) return {alive.front().tokens.begin() + 1, alive.front().tokens.end()};
    return best_ ? best_->tokens : Tokens();
  }

 private:
  // One more token for each; those that end are weighed against the best, the others are returned, the most
  // probable first.
  std::vector<Candidate> extended(const std::vector<Candidate>& alive) {
    const auto rows = static_cast<std::int64_t>(alive.size());
    const auto length = static_cast<std::int64_t>(alive.front().tokens.size());
    const torch::Tensor target = torch::empty({rows, length}, torch::kInt64);
    auto* to = target.data_ptr<std::int64_t>();
    for (const Candidate& candidate : alive)
      to = std::ranges::copy(candidate.tokens, to).out;
    const Translator::Encoded encoded{encoded_.states.expand({rows, -1, -1}),
                                      encoded_.padded.expand({rows, -1})};
    torch::Tensor scores = model_.decode(encoded, target.to(device_)).select(1, length - 1);
    const std::int64_t known = options_.vocabulary > 0 ? options_.vocabulary : scores.size(1);
    scores = scores.slice(1, 0, known).to(torch::kFloat64).log_softmax(1).cpu();
    for (std::int64_t row = 0; row < rows; ++row)
      scores[row] += alive[static_cast<std::size_t>(row)].log_probability;
    // Twice as many, so that a beam is left when all of a beam end.
    const auto [values, places] = scores.flatten().topk(std::min(2 * options_.beam, rows * known));
    std::vector<Candidate> next;
    for (std::int64_t k = 0; k < values.size(0); ++k) {
      const std::int64_t place = places[k].item<std::int64_t>();
      const Candidate& from = alive[static_cast<std::size_t>(place / known)];
      const double log_probability = values[k].item<double>();
      if (place % known == options_.end) {
        // Beyond the beam an end is no better than what stays.
        if (k < options_.beam) end(from, log_probability);
      } else if (next.size() < static_cast<std::size_t>(options_.beam)) {
        next.push_back({from.tokens, log_probability});
        next.back().tokens.push_back(place % known);
      }
    }
    return next;
  }

  void end(const Candidate& from, double log_probability) {
    const double value = lowered(log_probability, from.tokens.size(), options_.length_penalty);
    if (best_ && best_value_ >= value) return;
    best_ = Candidate{{from.tokens.begin() + 1, from.tokens.end()}, log_probability};
    best_value_ = value;
  }

  // Log probabilities only fall; the penalty can help at most as much as at the longest.
  bool cannot_win(const Candidate& most_probable, std::int64_t length) const {
    const std::int64_t counted = options_.length_penalty > 0 ? options_.longest + 1 : length;
    return best_value_ >=
           lowered(most_probable.log_probability, static_cast<std::size_t>(counted), options_.length_penalty);
  }

  Translator& model_;
  const BeamOptions& options_;
  const torch::Device device_;
  Translator::Encoded encoded_;
  std::optional<Candidate> best_;  // that has ended, without marks
  double best_value_ = 0;
};

}  // namespace

std::vector<Tokens> translate(Translator& model, const std::vector<Tokens>& sources,
                              const BeamOptions& options) {
  KITH_CHECK(options.beam > 0 && options.longest > 0, "a beam and a length");
  const torch::NoGradGuard no_grad;
  model.eval();
  std::vector<Tokens> translations;
  for (const Tokens& source : sources) {
    KITH_CHECK(!source.empty(), "a source has a token");
    translations.push_back(Search(model, source, options).run());
  }
  return translations;
}

}  // namespace kith::train
