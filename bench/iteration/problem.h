#pragma once

#include <cstdint>

namespace kith::bench {

// The job that every contestant trains, kith's workers and PyTorch's alike: an MLP on data that is a formula
// of the indices, so that both sides draw the same numbers. `ddp.py` repeats these formulas.
//   weight k of layer l:  0.03 sin(0.37 k + l)      biases: 0
//   input k of worker r:  cos(0.11 k + 3 r)         label of row i: i mod kOutputs
struct Problem {
  static constexpr std::int64_t kInputs = 784;
  static constexpr std::int64_t kHidden = 1024;
  static constexpr int kHiddenLayers = 3;
  static constexpr std::int64_t kOutputs = 10;
  static constexpr double kLr = 1e-4;
};

}  // namespace kith::bench
