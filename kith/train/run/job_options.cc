#include "kith/train/run/job_options.h"

#include <algorithm>
#include <limits>

#include <torch/version.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/dataset.h"
#include "kith/train/data_parallel.h"
#include "kith/train/models/model.h"

namespace kith::train {

SamplerOptions sampler_options(const Job& job, const Dataset& dataset, Rank rank) {
  return {.samples = dataset.train_samples(),
          .workers = static_cast<int>(job.world.workers),
          .rank = rank,
          .batch = static_cast<std::uint64_t>(job.train.batch),
          .seed = static_cast<std::uint64_t>(job.train.seed)};
}

Options wrapper_options(const Job& job, const std::filesystem::path& resume_from) {
  Options wrapper = options_of(job);
  // Biases and norms are not decayed, as everywhere.
  wrapper.groups = {{.name = "no-decay",
                     .takes = [](const std::string&, const torch::Tensor& p) { return p.dim() < 2; },
                     .lr = {},
                     .weight_decay = 0.0}};
  wrapper.resume_from = resume_from;
  return wrapper;
}

Sampler sampler_at(const Job& job, const Dataset& dataset, const engine::WorldParts& world,
                   const Resumed& resumed, std::span<const std::byte> position) {
  Sampler sampler(sampler_options(job, dataset, world.rank()));
  sampler.seek(position);
  const std::int64_t batches = resumed.step * job.train.accumulate;
  if (sampler.drawn() != static_cast<std::uint64_t>(batches)) {
    throw InputError(cat(sampler.drawn(), " batches were drawn, and ", batches, " make the steps done"),
                     "data position of the checkpoint", "it is damaged, or train.accumulate has changed");
  }
  if (resumed.workers != world.size() && world.rank() == 0) {
    world.log->warning(cat("saved by ", resumed.workers, " workers, goes on with ", world.size(),
                           ": each one's own share of the data is not kept, the ", sampler.left(),
                           " samples left of epoch ", sampler.epoch(), " are dealt anew"));
  }
  return sampler;
}

Sampler sampler_at(const Job& job, const Dataset& dataset, const Membership::Settled& settled) {
  SamplerOptions options = sampler_options(job, dataset, settled.rank);
  options.workers = settled.workers;
  Sampler sampler(options);
  sampler.seek(encode(settled.position));
  return sampler;
}

RateOptions rate_options(const Job& job, std::int64_t steps) {
  return {.curve = job.rate.curve,
          .lr = job.rate.lr,
          .warmup_steps = warmup_steps(job, steps),
          .total_steps = steps,
          .final_fraction = job.rate.final_fraction,
          .every = job.rate.every,
          .factor = job.rate.factor};
}

double rate_share(const Job& job, int workers) {
  return job.rate.on_view == "scale" ? static_cast<double>(workers) / static_cast<double>(job.world.workers)
                                     : 1.0;
}

std::string batch_text(const Job& job, int workers) {
  const std::int64_t each = job.train.batch * job.train.accumulate;
  const double share = rate_share(job, workers);
  return cat("a step of all workers takes ", each * workers, " samples",
             workers == job.world.workers ? "" : cat(" instead of ", each * job.world.workers),
             share == 1 ? "; the rate is kept (rate.on_view)"
                        : cat("; the rate is multiplied by ", share, " (rate.on_view)"));
}

bool can_spare_one(const Job& job, int workers) {
  return job.world.on_lost == "reform" && workers > std::max<std::int64_t>(1, job.world.least);
}

std::int64_t units_per_step(const Job& job, const Dataset& dataset) {
  return job.train.batch * job.train.accumulate * dataset.units_per_sample();
}

RecordedRun recorded_run(const TrainerOptions& options, const Dataset& dataset,
                         const DecentralizedDataParallel& wrapped, std::int64_t steps) {
  return {.file = options.folder.metrics(wrapped.world().self().value),
          .steps_done = wrapped.steps(),
          .steps = steps,
          .seconds = options.job.train.seconds,
          .parameters = parameter_count(*wrapped.module()),
          .unit = dataset.unit(),
          .units_per_step = static_cast<double>(units_per_step(options.job, dataset)),
          .environment = {{"LibTorch", TORCH_VERSION}}};
}

std::string opening_text(const Job& job, std::int64_t parameters, int workers, std::int64_t steps,
                         std::int64_t done) {
  return cat(job.model.name, " with ", parameters, " parameters, ", workers, " workers, ", job.algorithm.name,
             averages_models(job) ? cat(" on ", job.topology.name) : "", ", ", job.optimizer.name, ", ",
             job.train.seconds > 0 ? cat(job.train.seconds, " s") : cat(steps, " steps"),
             done > 0 ? cat(", going on from step ", done) : "");
}

std::int64_t total_steps(const Job& job, const Dataset& dataset) {
  const Sampler sampler(sampler_options(job, dataset, 0));
  std::int64_t steps = job.train.seconds > 0 ? std::numeric_limits<std::int64_t>::max() : job.train.steps;
  if (job.train.epochs > 0 && job.train.seconds == 0) {
    steps = job.train.epochs * static_cast<std::int64_t>(sampler.batches_per_epoch()) / job.train.accumulate;
  }
  if (steps == 0) {
    throw InputError(
        cat(job.train.epochs, " epochs do not fill one step of ", job.train.accumulate, " batches"),
        "train.accumulate", "fewer batches per step, or more epochs");
  }
  validate(rate_options(job, steps));
  return steps;
}

}  // namespace kith::train
