#include "kith/optim/local_step.h"

#include <algorithm>
#include <string>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::optim {
namespace {

template <class T>
class Sgd final : public LocalStep<T> {
 public:
  explicit Sgd(const OptimizerOptions& options) : options_(options) {}

  int states() const override { return options_.momentum != 0 ? 1 : 0; }

  kernels::Pass<T> pass(const kernels::Destination<T>& to, const kernels::Mix& mix, const StepInput& input,
                        const std::array<T*, 3>& state, std::size_t count) const override {
    kernels::SgdOptions sgd;
    sgd.lr = input.lr;
    sgd.momentum = options_.momentum;
    sgd.dampening = options_.dampening;
    sgd.nesterov = options_.nesterov;
    sgd.decay = input.decay;
    sgd.first = input.step == 1;
    return {to, mix, input.gradient, state, sgd, count};
  }

 private:
  const OptimizerOptions options_;
};

kernels::AdamOptions adam_options(const OptimizerOptions& options, const StepInput& input,
                                  kernels::Decay decay) {
  kernels::AdamOptions adam;
  adam.lr = input.lr;
  adam.beta1 = options.beta1;
  adam.beta2 = options.beta2;
  adam.eps = options.eps;
  adam.decay = input.decay;
  adam.decay_kind = decay;
  adam.step = input.step;
  return adam;
}

template <class T>
class Adam final : public LocalStep<T> {
 public:
  Adam(const OptimizerOptions& options, kernels::Decay decay) : options_(options), decay_(decay) {}

  int states() const override { return 2; }

  kernels::Pass<T> pass(const kernels::Destination<T>& to, const kernels::Mix& mix, const StepInput& input,
                        const std::array<T*, 3>& state, std::size_t count) const override {
    return {to, mix, input.gradient, state, adam_options(options_, input, decay_), count};
  }

 private:
  const OptimizerOptions options_;
  const kernels::Decay decay_;
};

template <class T>
class AccumAdam final : public LocalStep<T> {
 public:
  AccumAdam(const OptimizerOptions& options, kernels::Decay decay) : options_(options), decay_(decay) {}

  int states() const override { return 3; }

  kernels::Pass<T> pass(const kernels::Destination<T>& to, const kernels::Mix& mix, const StepInput& input,
                        const std::array<T*, 3>& state, std::size_t count) const override {
    const kernels::AccumAdamOptions accum{adam_options(options_, input, decay_), options_.commit_every};
    return {to, mix, input.gradient, state, accum, count};
  }

 private:
  const OptimizerOptions options_;
  const kernels::Decay decay_;
};

void require(bool good, std::string_view key, double value, std::string_view range) {
  if (!good) throw InputError(cat(value, " is out of range"), cat("optimizer.", key), range);
}

}  // namespace

std::vector<std::string> optimizer_names() {
  return {"sgd", "adam", "adamw", "accum-adam", "accum-adamw"};
}

void validate(const OptimizerOptions& options) {
  const std::vector<std::string> names = optimizer_names();
  if (std::find(names.begin(), names.end(), options.name) == names.end()) {
    throw InputError(cat("'", options.name, "' is not an optimizer"), "optimizer.name",
                     suggest(options.name, names));
  }
  require(options.momentum >= 0 && options.momentum < 1, "momentum", options.momentum, "0 <= momentum < 1");
  require(options.beta1 >= 0 && options.beta1 < 1, "beta1", options.beta1, "0 <= beta1 < 1");
  require(options.beta2 >= 0 && options.beta2 < 1, "beta2", options.beta2, "0 <= beta2 < 1");
  require(options.eps > 0 && options.eps < 1, "eps", options.eps, "0 < eps < 1");
  require(options.commit_every >= 1, "commit_every", options.commit_every, "at least 1");
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    throw InputError(cat("momentum ", options.momentum, " and dampening ", options.dampening),
                     "optimizer.nesterov", "Nesterov needs a momentum and no dampening");
  }
}

template <class T>
std::unique_ptr<LocalStep<T>> make_local_step(const OptimizerOptions& options) {
  validate(options);
  using kernels::Decay;
  if (options.name == "sgd") return std::make_unique<Sgd<T>>(options);
  if (options.name == "adam") return std::make_unique<Adam<T>>(options, Decay::coupled);
  if (options.name == "adamw") return std::make_unique<Adam<T>>(options, Decay::decoupled);
  if (options.name == "accum-adam") return std::make_unique<AccumAdam<T>>(options, Decay::coupled);
  return std::make_unique<AccumAdam<T>>(options, Decay::decoupled);
}

template std::unique_ptr<LocalStep<float>> make_local_step<float>(const OptimizerOptions&);
template std::unique_ptr<LocalStep<double>> make_local_step<double>(const OptimizerOptions&);

}  // namespace kith::optim
