#pragma once

#include <memory>

#include "kith/train/models/model.h"

namespace kith::train {

struct GptOptions {
  std::int64_t layers = 4;
  std::int64_t heads = 4;  // divide the width
  std::int64_t width = 128;
  std::int64_t context = 64;
  double dropout = 0;
};

// A decoder-only transformer over bytes: pre-norm blocks, learned positions, GELU, and one table that is both
// the embedding of a byte and its score. Input: (batch, up to `context`) bytes; scores: (batch * length,
// 256).
std::shared_ptr<Model> make_gpt(const GptOptions& options);

}  // namespace kith::train
