#pragma once

#include <memory>

#include "kith/train/models/model.h"

namespace kith::train {

struct GptOptions {
  std::int64_t layers = 4;
  std::int64_t heads = 4;  // divide the width
  std::int64_t width = 128;
  std::int64_t context = 64;
  std::int64_t vocabulary = 256;  // bytes
  double dropout = 0;
  std::int64_t feed_forward = 0;  // the hidden layer of a block; 0: four times the width
  bool bias = true;               // of linear layers and norms
  bool tanh_gelu = false;         // GELU by its approximation, as in the published weights
};

// A decoder-only transformer: pre-norm blocks, learned positions, GELU, and one table that is both the
// embedding of a token and its score. Input: (batch, up to `context`) tokens; scores: (batch * length,
// vocabulary). With 12 layers and heads, width 768, context 1024, 50257 tokens and the approximate GELU it is
// GPT-2 small; kith/train/models/gpt2_layout.h knows the names of its published weights.
std::shared_ptr<Model> make_gpt(const GptOptions& options);

}  // namespace kith::train
