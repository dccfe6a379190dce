#include "kith/train/run/rates_text.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kith/base/text.h"

namespace kith::train {
namespace {

double two_digits(double value) {
  return std::round(100 * value) / 100;
}

}  // namespace

std::string rates_text(DecentralizedDataParallel& model) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const ParameterGroup& group : model.parameter_groups()) {
    for (const std::string& name : group.parameters) {
      least = std::min(least, model.rate_factor(name));
      most = std::max(most, model.rate_factor(name));
    }
  }
  return cat("rates: ", two_digits(model.noise_share()),
             " of a worker's squared gradient is noise, which a mean over ", model.world().size(),
             " workers would not have; each parameter's rate is multiplied by ", two_digits(least), " to ",
             two_digits(most), " (optimizer.noise_every = 0 leaves it)");
}

}  // namespace kith::train
