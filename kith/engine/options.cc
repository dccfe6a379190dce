#include "kith/engine/options.h"

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/optim/algorithm.h"

namespace kith::engine {

void validate(const EngineOptions& options) {
  optim::validate(options.optimizer);
  const auto algorithm = optim::make_algorithm<float>(options.algorithm);
  if (options.bucket_bytes == 0) throw InputError("0 bytes", "bucket size", "for example 25 MiB");
  if (options.mix_every < 1) throw InputError(cat(options.mix_every), "mix every", "at least 1");
  if (options.patience <= Clock::Duration::zero()) {
    throw InputError(cat(seconds(options.patience), " s"), "patience", "longer than nothing");
  }
  const bool publishes_model = !algorithm->channels().empty() && algorithm->channels().front().is_model;
  if (options.layout == Layout::alternating && !publishes_model) {
    throw InputError(cat("the alternating layout with algorithm '", options.algorithm, "'"), "layout",
                     "only algorithms that publish the model itself (awc) can alternate; use staged");
  }
  if (!options.external_optimizer) return;
  if (algorithm->mixes_gradients() || algorithm->needs_directed_schedule()) {
    throw InputError(cat("algorithm '", options.algorithm, "' with an optimizer of one's own"), "algorithm",
                     "it needs the gradients themselves: awc, atc, allreduce or none");
  }
  if (options.layout == Layout::alternating) {
    throw InputError("the alternating layout with an optimizer of one's own", "layout",
                     "that one moves parameters where they lie: use staged");
  }
}

bool averages_gradients(const EngineOptions& options) {
  return optim::exchange_of(options.algorithm) == optim::Exchange::gradients;
}

}  // namespace kith::engine
