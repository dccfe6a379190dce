#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "kith/base/ids.h"
#include "kith/engine/world_parts.h"
#include "kith/train/config/job.h"
#include "kith/train/data/sampler.h"
#include "kith/train/learning_rate.h"
#include "kith/train/options.h"
#include "kith/train/run/membership.h"
#include "kith/train/run/recorder.h"
#include "kith/train/run/trainer.h"

namespace kith::train {

class Dataset;   // kith/train/data/dataset.h
struct Resumed;  // kith/train/data_parallel.h

// What a job says to the parts that its trainer is made of.
SamplerOptions sampler_options(const Job& job, const Dataset& dataset, Rank rank);
// Where the run that is resumed stood; `position`: the sampler's part of it. InputError when it does not fit
// the steps that were done.
Sampler sampler_at(const Job& job, const Dataset& dataset, const engine::WorldParts& world,
                   const Resumed& resumed, std::span<const std::byte> position);
// The same for a member of a view, where the data was dealt anew.
Sampler sampler_at(const Job& job, const Dataset& dataset, const Membership::Settled& settled);
// `resume_from`: a checkpoint; empty: a fresh start.
Options wrapper_options(const Job& job, const std::filesystem::path& resume_from);
RateOptions rate_options(const Job& job, std::int64_t steps);
// What the rate is multiplied by where the data is dealt among `workers`, by rate.on_view; and a line that
// says so.
double rate_share(const Job& job, int workers);
std::string batch_text(const Job& job, int workers);
// Whether the others of so many workers could go on without one of them.
bool can_spare_one(const Job& job, int workers);
// Of one worker.
std::int64_t units_per_step(const Job& job, const Dataset& dataset);
// `steps`: of the whole run; 0: a time decides.
RecordedRun recorded_run(const TrainerOptions& options, const Dataset& dataset,
                         const DecentralizedDataParallel& wrapped, std::int64_t steps);
// What a run begins with, in one line. `done`: steps.
std::string opening_text(const Job& job, std::int64_t parameters, int workers, std::int64_t steps,
                         std::int64_t done);

}  // namespace kith::train
