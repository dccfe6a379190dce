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
};

// A decoder-only transformer: pre-norm blocks, learned positions, GELU, and one table that is both the
// embedding of a token and its score. Input: (batch, up to `context`) tokens; scores: (batch * length,
// vocabulary). With 12 layers and heads, width 768, context 1024 and 50257 tokens it is GPT-2 small.
std::shared_ptr<Model> make_gpt(const GptOptions& options);

}  // namespace kith::train
