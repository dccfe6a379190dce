#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kith::train {

// The learning rate as a pure function of the step; nothing to save or to resume.
struct RateOptions {
  // constant      lr
  // cosine        from lr to final_fraction * lr, half a cosine that ends at total_steps
  // inverse-sqrt  lr * sqrt(warmup_steps / (step + 1))
  // step          lr * factor ^ (step / every)
  std::string curve = "constant";
  double lr = 1e-3;
  // All of them begin with a straight line from warmup_start * lr at step 0 to lr at step warmup_steps.
  std::int64_t warmup_steps = 0;
  double warmup_start = 0.01;
  std::int64_t total_steps = 0;  // cosine: steps from 0 to the end, warm-up included
  double final_fraction = 0;     // cosine
  std::int64_t every = 1;        // step
  double factor = 0.1;           // step
};

std::vector<std::string> rate_curves();

// InputError for an unknown curve or a number out of range.
void validate(const RateOptions& options);

// The rate for step `step`, from 0. REQUIRES: validate(options) passes.
double lr_at(const RateOptions& options, std::int64_t step);

}  // namespace kith::train
