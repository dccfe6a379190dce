#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kith::bench {

// The job that every contestant trains, kith's workers and PyTorch's alike: an MLP on data that is a formula
// of the indices, so that both sides draw the same numbers. `ddp.py` repeats these formulas.
//   weight k of layer l:  0.03 sin(0.37 k + l)      biases: 0
//   input k of worker r:  cos(0.11 k + 3 r)         label of row i: i mod kOutputs
struct Problem {
  static constexpr std::int64_t kOutputs = 10;
  static constexpr double kLr = 1e-4;

  std::int64_t inputs = 784;
  std::int64_t hidden = 1024;
  std::int64_t hidden_layers = 3;
  std::int64_t batch = 64;  // of each worker

  std::int64_t parameters() const {
    return (inputs + 1) * hidden + (hidden_layers - 1) * (hidden + 1) * hidden + (hidden + 1) * kOutputs;
  }

  // As words of a command line, for the workers.
  std::vector<std::string> words() const {
    return {std::to_string(inputs), std::to_string(hidden), std::to_string(hidden_layers),
            std::to_string(batch)};
  }
  // REQUIRES: what words() gave, at `first`.
  static Problem from(const char* const* first) {
    return {std::stol(first[0]), std::stol(first[1]), std::stol(first[2]), std::stol(first[3])};
  }
};

}  // namespace kith::bench
