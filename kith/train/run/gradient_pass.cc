#include "kith/train/run/gradient_pass.h"

#include <utility>

#include "kith/base/error.h"
#include "kith/telemetry/span.h"
#include "kith/train/run/model_pass.h"

namespace kith::train {
namespace {

telemetry::Span span(const DecentralizedDataParallel& wrapped, std::string_view name) {
  const engine::WorldParts& world = wrapped.world();
  return {world.trace, *world.clock, {.name = name, .category = "train", .worker = world.self()}};
}

}  // namespace

bool scales_loss(const Job& job) {
  return job.train.precision == "fp16";
}

GradientPass::GradientPass(const Job& job, Model& model, DecentralizedDataParallel& wrapped,
                           GradScaler& scaler)
    : job_(job), model_(model), wrapped_(wrapped), scaler_(scaler) {
  if (!records_passes(job)) return;
  const std::string obstacle = graphs_obstacle(wrapped.device());
  if (obstacle.empty()) {
    graphs_ = std::make_unique<GradientGraphs>(
        model.parameters(), [this](const Batch& batch) { return loss_of(job_, model_, batch); });
  } else if (job.train.graph == "on") {
    throw InputError(obstacle, "train.graph", "automatic or off");
  }
}

void GradientPass::accumulate(const Batch& batch, double weight) {
  if (graphs_) {
    const auto pass = span(wrapped_, "pass");
    const auto guard = wrapped_.no_sync();  // step() finds the gradients; nothing is told on the way
    losses_.push_back(wrapped_.read(graphs_->run(batch, weight)));
    return;
  }
  torch::Tensor loss;
  {
    const auto forward = span(wrapped_, "forward");
    loss = weight * loss_of(job_, model_, batch);
  }
  const auto backward = span(wrapped_, "backward");
  (scales_loss(job_) ? scaler_.scale(loss) : loss).backward();
  losses_.push_back(wrapped_.read(loss));
}

bool GradientPass::measures_noise() const {
  return wrapped_.corrects_noise() && job_.optimizer.noise_every > 0 &&
         wrapped_.steps() % job_.optimizer.noise_every == 0;
}

std::vector<PendingValue> GradientPass::run(Loader& loader) {
  const std::int64_t batches = job_.train.accumulate;
  const bool measures = measures_noise();
  for (std::int64_t i = 1; i < batches; ++i) {
    const auto guard = wrapped_.no_sync();
    accumulate(loader.next());
    if (measures && i == batches / 2)
      wrapped_.measure_noise(static_cast<double>(i) / static_cast<double>(batches));
  }
  const Batch last = loader.next();
  const std::int64_t samples = last.input.size(0);
  if (!measures || batches > 1 || samples == 1) {
    accumulate(last);
    return std::exchange(losses_, {});
  }
  const std::int64_t half = samples / 2;
  const double share = static_cast<double>(half) / static_cast<double>(samples);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    const std::int64_t targets = last.target.size(0) / samples;
    return Batch{last.input.narrow(0, first, count), last.target.narrow(0, first * targets, count * targets)};
  };
  {
    const auto guard = wrapped_.no_sync();
    accumulate(part(0, half), share);
  }
  wrapped_.measure_noise(share);
  accumulate(part(half, samples - half), 1 - share);
  return std::exchange(losses_, {});
}

}  // namespace kith::train
