#include "kith/train/models/beam_search.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "kith/train/models/sample.h"

namespace kith::train {
namespace {

using Tokens = std::vector<std::int64_t>;

constexpr std::int64_t kBegin = 0, kEnd = 1, kKnown = 5;

// A language that a table knows: the probabilities of the next token depend on the one before.
class TableTranslator final : public Translator {
 public:
  explicit TableTranslator(torch::Tensor probabilities)
      : Translator("table"), table_(register_parameter("table", probabilities.log())) {}
  Encoded encode(const torch::Tensor& source) override {
    return {torch::zeros({source.size(0), source.size(1), 1}), source.lt(0)};
  }
  torch::Tensor decode(const Encoded&, const torch::Tensor& target) override {
    return table_.index_select(0, target.flatten()).view({target.size(0), target.size(1), -1});
  }

 private:
  torch::Tensor table_;
};

torch::Tensor drawn_table(std::int64_t seed) {
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  return torch::rand({kKnown, kKnown}).softmax(1);
}

// By trying everything of at most `longest` tokens.
Tokens best_of_all(const torch::Tensor& table, std::int64_t longest, double penalty) {
  Tokens best;
  double best_value = -INFINITY;
  const std::function<void(Tokens, double)> extend = [&](const Tokens& tokens, double log_probability) {
    const std::int64_t last = tokens.empty() ? kBegin : tokens.back();
    const double ended = log_probability + std::log(table[last][kEnd].item<double>());
    const double value = ended / std::pow((5 + static_cast<double>(tokens.size()) + 1) / 6, penalty);
    if (value > best_value) {
      best = tokens;
      best_value = value;
    }
    if (static_cast<std::int64_t>(tokens.size()) + 1 >= longest) return;
    for (std::int64_t token = 0; token < kKnown; ++token) {
      if (token == kEnd) continue;
      Tokens more = tokens;
      more.push_back(token);
      extend(more, log_probability + std::log(table[last][token].item<double>()));
    }
  };
  extend({}, 0);
  return best;
}

TEST(BeamSearch, AWideBeamFindsTheBestOfAll) {
  for (const double penalty : {0.0, 0.6, 2.0}) {
    for (std::int64_t seed = 1; seed <= 8; ++seed) {
      const torch::Tensor table = drawn_table(seed);
      TableTranslator model(table);
      const BeamOptions options{
          .beam = 200, .length_penalty = penalty, .begin = kBegin, .end = kEnd, .longest = 4};
      EXPECT_EQ(translate(model, {{2, 3, kEnd}}, options).front(), best_of_all(table, 4, penalty))
          << "seed " << seed << ", penalty " << penalty;
    }
  }
}

// The first token that looks best leads nowhere: 0.6 * 0.3 against 0.4 * 0.9.
TEST(BeamSearch, FindsWhatTheGreedyWayMisses) {
  torch::Tensor table = torch::full({kKnown, kKnown}, 1e-6);
  table[kBegin][2] = 0.6;
  table[kBegin][3] = 0.4;
  table[2][kEnd] = 0.3;
  table[2][4] = 0.7;
  table[4][4] = 0.9;
  table[4][kEnd] = 0.1;
  table[3][kEnd] = 0.9;
  table[3][4] = 0.1;
  TableTranslator model(table);
  BeamOptions options{.beam = 1, .length_penalty = 0, .begin = kBegin, .end = kEnd, .longest = 3};
  EXPECT_NE(translate(model, {{2, kEnd}}, options).front(), Tokens{3});
  options.beam = 2;
  EXPECT_EQ(translate(model, {{2, kEnd}}, options).front(), Tokens{3});
}

TEST(BeamSearch, CutsWhatDoesNotEndAndDrawsNoTokenThatMeansNothing) {
  torch::Tensor table = torch::full({kKnown, kKnown}, 1e-12);
  table.select(1, 4) = 0.9;  // means nothing
  table.select(1, 2) = 0.1;
  TableTranslator model(table);
  const BeamOptions options{.beam = 1, .begin = kBegin, .end = kEnd, .longest = 6, .vocabulary = 4};
  EXPECT_EQ(translate(model, {{2, kEnd}}, options).front(), Tokens(6, 2));
}

// Copies its input: learnt by a real model in a moment, and found by the search.
TEST(BeamSearch, TranslatesWithWhatATransformerHasLearnt) {
  torch::manual_seed(5);
  const auto model = make_transformer({.layers = 1,
                                       .heads = 2,
                                       .width = 32,
                                       .feed_forward = 64,
                                       .vocabulary = 12,
                                       .context = 8,
                                       .dropout = 0});
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(3e-3));
  constexpr std::int64_t kRows = 32, kLength = 4;
  double loss_now = 0;
  for (int step = 0; step < 400; ++step) {
    const torch::Tensor words = torch::randint(2, 12, {kRows, kLength}, torch::kInt64);
    const auto mark = [&](std::int64_t token) { return torch::full({kRows, 1}, token, torch::kInt64); };
    const torch::Tensor source = torch::cat({words, mark(kEnd)}, 1),
                        read = torch::cat({mark(kBegin), words}, 1);
    optimizer.zero_grad();
    const torch::Tensor loss = torch::nn::functional::cross_entropy(
        model->forward(torch::stack({source, read}, 1)), source.flatten());
    loss.backward();
    optimizer.step();
    loss_now = loss.item<double>();
  }
  EXPECT_LT(loss_now, 0.1);
  const Tokens source{7, 2, 9, 4, kEnd};
  EXPECT_EQ(translate(*model, {source}, {.begin = kBegin, .end = kEnd, .longest = 7}).front(),
            (Tokens{7, 2, 9, 4}));
}

// Scores depend on the last token alone.
class TableModel final : public Model {
 public:
  explicit TableModel(torch::Tensor probabilities)
      : Model("table"), table_(register_parameter("table", probabilities.log())) {}
  torch::Tensor forward(const torch::Tensor& tokens) override {
    EXPECT_LE(tokens.size(1), 3) << "longer than the context";
    return table_.index_select(0, tokens.flatten());
  }

 private:
  torch::Tensor table_;
};

TEST(Sampling, DrawsWithTheModelsProbabilities) {
  const torch::Tensor table = drawn_table(11);
  TableModel model(table);
  std::map<std::int64_t, int> after_two;
  std::int64_t before = 2;
  int draws = 0;
  sample_tokens(model, {2}, {.tokens = 6000, .temperature = 1, .context = 3}, [&](std::int64_t token) {
    if (before == 2) {
      ++after_two[token];
      ++draws;
    }
    before = token;
  });
  for (std::int64_t token = 0; token < kKnown; ++token)
    EXPECT_NEAR(static_cast<double>(after_two[token]) / draws, table[2][token].item<double>(), 0.05);
}

TEST(Sampling, WithoutTemperatureTakesTheMostProbableAndTopLimits) {
  const torch::Tensor table = drawn_table(12);
  TableModel model(table);
  const auto drawn = [&](const SampleOptions& options) {
    Tokens tokens;
    sample_tokens(model, {3}, options, [&](std::int64_t token) { tokens.push_back(token); });
    return tokens;
  };
  const Tokens greedy = drawn({.tokens = 20, .temperature = 0, .context = 3});
  EXPECT_EQ(greedy.front(), table[3].argmax().item<std::int64_t>());
  EXPECT_EQ(drawn({.tokens = 20, .temperature = 5, .top = 1, .context = 3}), greedy);
  EXPECT_EQ(drawn({.tokens = 50, .context = 3, .seed = 4}), drawn({.tokens = 50, .context = 3, .seed = 4}));
  EXPECT_NE(drawn({.tokens = 50, .context = 3, .seed = 4}), drawn({.tokens = 50, .context = 3, .seed = 5}));
  for (const std::int64_t token : drawn({.tokens = 200, .temperature = 1, .context = 3, .vocabulary = 2}))
    EXPECT_LT(token, 2);
}

}  // namespace
}  // namespace kith::train
