#pragma once

#include <cstddef>
#include <vector>

namespace kith::bench {

struct Tensor {
  std::size_t first = 0;  // in the model, laid end to end
  std::size_t count = 0;
  bool decays = false;  // matrices do, biases and norms do not
};

// GPT-2 small's 148 parameters (the head is tied), 124,439,808 elements.
std::vector<Tensor> gpt2_small();

}  // namespace kith::bench
