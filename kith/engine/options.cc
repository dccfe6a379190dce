#include "kith/engine/options.h"

#include <algorithm>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/optim/algorithm.h"
#include "kith/optim/control.h"
#include "kith/optim/methods.h"

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
}

void validate_wire(const EngineOptions& options, optim::Exchange exchange) {
  if (options.wire != DType::i8 || exchange != optim::Exchange::gradients) return;
  throw InputError(cat("a wire of int8 with algorithm '", options.algorithm, "'"), "wire",
                   "all workers must end with the same mean gradient, and sums of many in 8 bits lose what "
                   "the smaller ones say: bf16 or fp16; int8 is for models");
}

void validate_codec(const EngineOptions& options) {
  optim::validate_codec(options.algorithm, options.codec, options.consensus_step);
  if (options.codec.empty()) return;
  if (options.wire) {
    throw InputError(cat("codec '", options.codec, "' and a wire of ", name_of(*options.wire)), "codec",
                     "one of the two says what travels");
  }
  if (nodes_are_models(options)) {
    throw InputError(cat("codec '", options.codec, "' and gradients averaged inside nodes"), "codec",
                     "the workers of a node would not stay one model: leave inside at none");
  }
  if (options.layout == Layout::alternating) {
    throw InputError("the alternating layout with a codec", "layout", "differences need the staged layout");
  }
}

void validate_control(const EngineOptions& options) {
  if (options.control.empty()) return;
  const optim::Control control(options.control);
  const bool adapts_first = options.method.order == optim::Order::adapt_first;
  if (!optim::method_of(options.algorithm).takes_rounds || !adapts_first) {
    throw InputError(cat("consensus control with algorithm '", options.algorithm, "'",
                         adapts_first ? "" : " in the order mix-first"),
                     "control",
                     "it chooses the rounds of a step: atc, dsgd, d-adam and mc-dsgt take several");
  }
  if (!options.codec.empty()) {
    throw InputError(
        cat("consensus control and codec '", options.codec, "'"), "control",
        "how fast encoded differences bring models together is not known; leave one of them out");
  }
  if (options.external_optimizer && control.reads_updates()) {
    throw InputError("control that goes by updates, with an optimizer of one's own", "control",
                     "a distance, or a share of one");
  }
}

// What goes by measurements.
void validate_pace(const EngineOptions& options, const optim::Algorithm<float>& algorithm) {
  validate_control(options);
  if (!pace_is_measured(options)) {
    make_trigger(options);
    return;
  }
  const auto trigger = optim::measured_trigger(options.trigger);
  const std::string what = trigger ? cat("the trigger '", options.trigger, "'") : "consensus control";
  if (options.reforms) {
    throw InputError(cat(what, ", where the others go on without a lost worker"),
                     trigger ? "trigger" : "control",
                     "they cannot agree while one is missing: let its loss end the run (on_lost = \"fail\")");
  }
  const auto near = [](const optim::ChannelSpec& channel) { return channel.near_model; };
  if (trigger && trigger->period_s == 0 &&
      (!options.codec.empty() || !std::ranges::any_of(algorithm.channels(), near))) {
    throw InputError(
        cat(what, " with algorithm '", options.algorithm, "'", options.codec.empty() ? "" : " and a codec"),
        "trigger", "a distance is measured where models travel in full; take a number of steps");
  }
}

}  // namespace

void validate(const EngineOptions& options) {
  validate_codec(options);
  optim::validate(options.optimizer);
  optim::validate(options.algorithm, options.method,
                  options.external_optimizer ? "" : std::string_view(options.optimizer.name));
  const auto algorithm = optim::make_algorithm<float>(options.algorithm, options.method);
  validate_inside(options, algorithm->exchange());
  validate_wire(options, algorithm->exchange());
  if (options.bucket_bytes == 0) throw InputError("0 bytes", "bucket size", "for example 25 MiB");
  if (options.mix_every < 1) throw InputError(cat(options.mix_every), "mix every", "at least 1");
  if (options.mix_every > 1 && !options.trigger.empty()) {
    throw InputError(cat("mix every ", options.mix_every, " steps, and the trigger '", options.trigger, "'"),
                     "trigger", "one of the two says when to mix");
  }
  validate_pace(options, *algorithm);
  if (options.patience <= Clock::Duration::zero()) {
    throw InputError(cat(seconds(options.patience), " s"), "patience", "longer than nothing");
  }
  const bool publishes_model = !algorithm->channels().empty() && algorithm->channels().front().is_model;
  if (options.layout == Layout::alternating && !publishes_model) {
    throw InputError(cat("the alternating layout with algorithm '", options.algorithm, "'"), "layout",
                     "only algorithms that publish the model itself (awc) can alternate; use staged");
  }
  if (!options.external_optimizer) return;
  if (algorithm->mixes_gradients() || algorithm->needs_directed_schedule() ||
      optim::method_of(options.algorithm).takes_outer) {
    throw InputError(cat("algorithm '", options.algorithm, "' with an optimizer of one's own"), "algorithm",
                     "it needs to make the steps itself: awc, atc, allreduce or none");
  }
  if (options.layout == Layout::alternating) {
    throw InputError("the alternating layout with an optimizer of one's own", "layout",
                     "that one moves parameters where they lie: use staged");
  }
}

void require_mates(const EngineOptions& options) {
  const graph::Shape& shape = options.schedule.shape;
  if (!nodes_are_models(options) || shape.workers() > shape.nodes()) return;
  throw InputError(cat("gradients averaged inside nodes of one worker each (", shape.text(), ")"), kInside,
                   "there is nobody to average with: leave it at none, or give nodes such as 2x4");
}

std::unique_ptr<optim::Trigger> make_trigger(const EngineOptions& options) {
  return optim::make_trigger(options.trigger.empty() ? cat("every ", options.mix_every) : options.trigger);
}

bool pace_is_measured(const EngineOptions& options) {
  return !options.control.empty() || (!options.trigger.empty() && optim::measured_trigger(options.trigger));
}

std::vector<std::string> inside_names() {
  return {"none", "allreduce"};
}

bool nodes_are_models(const EngineOptions& options) {
  return options.inside == "allreduce";
}

std::size_t wire_block(const EngineOptions& options) {
  return options.wire ? block_of(*options.wire) : 1;
}

bool averages_gradients(const EngineOptions& options) {
  return nodes_are_models(options) || optim::exchange_of(options.algorithm) == optim::Exchange::gradients;
}

}  // namespace kith::engine
