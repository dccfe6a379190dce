#pragma once

#include <string>
#include <vector>

namespace kith::optim {

// The local rule that turns a gradient into a direction. One set for the whole model; what differs between
// parameter groups (lr, decay) travels with each segment.
struct OptimizerOptions {
  std::string name = "adamw";  // sgd, adam, adamw, accum-adam, accum-adamw
  double momentum = 0;         // sgd
  double dampening = 0;        // sgd
  bool nesterov = false;       // sgd
  double beta1 = 0.9;          // adam family
  double beta2 = 0.95;
  double eps = 1e-8;
  int commit_every = 4;  // accum-adam, accum-adamw: steps between commits of the moments
};

std::vector<std::string> optimizer_names();

// Throws InputError for an unknown name or a number out of range.
void validate(const OptimizerOptions& options);

}  // namespace kith::optim
