#include "kith/engine/options.h"

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/optim/algorithm.h"

namespace kith::engine {

namespace {

constexpr const char* kInside = "inside";

void validate_inside(const EngineOptions& options, optim::Exchange exchange) {
  if (options.inside == "none") return;
  if (!nodes_are_models(options)) {
    throw InputError(cat("'", options.inside, "' is nothing that the workers of a node do"), kInside,
                     suggest(options.inside, inside_names()));
  }
  if (exchange == optim::Exchange::gradients) {
    throw InputError(cat("gradients averaged inside nodes, with algorithm '", options.algorithm, "'"),
                     kInside, "that algorithm averages them with everybody: leave it at none");
  }
  if (!options.same_start) {
    throw InputError("gradients averaged inside nodes whose workers start from models of their own", kInside,
                     "let everybody start from the same model");
  }
  const graph::Shape& shape = options.schedule.shape;
  for (int node = 0; node < shape.nodes(); ++node) {
    if (shape.size_of(node) == shape.size_of(0)) continue;
    throw InputError(cat("gradients averaged inside nodes of ", shape.text(), " workers"), kInside,
                     "give nodes of equal size, such as 2x4");
  }
  if (shape.size_of(0) == 1) {
    throw InputError(cat("gradients averaged inside nodes of one worker each (", shape.text(), ")"), kInside,
                     "there is nobody to average with: leave it at none, or give nodes such as 2x4");
  }
}

}  // namespace

void validate(const EngineOptions& options) {
  optim::validate(options.optimizer);
  const auto algorithm = optim::make_algorithm<float>(options.algorithm);
  validate_inside(options, algorithm->exchange());
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

std::vector<std::string> inside_names() {
  return {"none", "allreduce"};
}

bool nodes_are_models(const EngineOptions& options) {
  return options.inside == "allreduce";
}

bool averages_gradients(const EngineOptions& options) {
  return nodes_are_models(options) || optim::exchange_of(options.algorithm) == optim::Exchange::gradients;
}

}  // namespace kith::engine
