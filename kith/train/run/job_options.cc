#include "kith/train/run/job_options.h"

#include <limits>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/dataset.h"
#include "kith/train/run/trainer.h"

namespace kith::train {

SamplerOptions sampler_options(const Job& job, const Dataset& dataset, Rank rank) {
  return {.samples = dataset.train_samples(),
          .workers = static_cast<int>(job.world.workers),
          .rank = rank,
          .batch = static_cast<std::uint64_t>(job.train.batch),
          .seed = static_cast<std::uint64_t>(job.train.seed)};
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
