#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kith/kernels/kernels.h"
#include "kith/optim/options.h"

namespace kith::optim {

// What one segment brings to one step.
struct StepInput {
  kernels::Gradient gradient;  // data is null when the parameter has none this step: it is then only mixed
  double lr = 0;
  double decay = 0;
  std::int64_t step = 1;  // of this parameter, from 1
};

// The optimizer's rule: to = mix - lr * direction(gradient), in one pass.
template <class T>
class LocalStep {
 public:
  virtual ~LocalStep() = default;

  // How many vectors of state the rule keeps per parameter; at most three.
  virtual int states() const = 0;

  // The pass that steps a parameter of `count` elements. `state` holds `states()` pointers, each to `count`
  // elements, zero before the first step. REQUIRES: input.gradient.data is not null.
  virtual kernels::Pass<T> pass(const kernels::Destination<T>& to, const kernels::Mix& mix,
                                const StepInput& input, const std::array<T*, 3>& state,
                                std::size_t count) const = 0;
};

template <class T>
std::unique_ptr<LocalStep<T>> make_local_step(const OptimizerOptions& options);

}  // namespace kith::optim
