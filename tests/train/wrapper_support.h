#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/train/support.h"

namespace kith::train::testing {

inline Options adam(double lr = 1e-2) {
  Options options = options_for("awc", "adam");
  options.lr = lr;
  return options;
}

inline torch::Tensor doubles(std::initializer_list<double> values) {
  return torch::tensor(std::vector<double>(values), torch::kFloat64).to(test_device());
}

// Parameters straight in a module; tests write the losses.
struct Bag : torch::nn::Module {
  torch::Tensor add(const std::string& name, const torch::Tensor& value) {
    return register_parameter(name, value);
  }
};

}  // namespace kith::train::testing
