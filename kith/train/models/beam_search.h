#pragma once

#include <cstdint>
#include <vector>

#include "kith/train/models/transformer.h"

namespace kith::train {

struct BeamOptions {
  std::int64_t beam = 4;
  // A translation of n tokens, its end included, has its log probability divided by ((5 + n) / 6)^penalty.
  double length_penalty = 0.6;
  std::int64_t begin = 1, end = 2;  // marks
  std::int64_t longest = 100;       // tokens of a translation; it is cut there
  std::int64_t vocabulary = 0;      // tokens that mean something; 0: all that the model knows
};

// The best translation of each source, without its marks. The model is left in evaluation mode. REQUIRES:
// each source has a token and ends with the mark, as in training.
std::vector<std::vector<std::int64_t>> translate(Translator& model,
                                                 const std::vector<std::vector<std::int64_t>>& sources,
                                                 const BeamOptions& options);

}  // namespace kith::train
