#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kith/train/models/model.h"

namespace kith::train {

struct SampleOptions {
  std::int64_t tokens = 200;
  double temperature = 0.8;     // 0: always the most probable token
  std::int64_t top = 0;         // draws among as many of the most probable; 0: among all
  std::int64_t context = 64;    // of the model
  std::int64_t vocabulary = 0;  // tokens that mean something; 0: all that the model knows
  std::uint64_t seed = 1;
};

// Continues the prompt token by token and hands each to `next`. The model is left in evaluation mode.
// REQUIRES: the prompt has a token; each is one of the model's.
void sample_tokens(Model& model, std::vector<std::int64_t> prompt, const SampleOptions& options,
                   const std::function<void(std::int64_t)>& next);

}  // namespace kith::train
