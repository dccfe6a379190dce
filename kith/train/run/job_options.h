#pragma once

#include <cstdint>

#include "kith/base/ids.h"
#include "kith/train/config/job.h"
#include "kith/train/data/sampler.h"
#include "kith/train/learning_rate.h"

namespace kith::train {

class Dataset;  // kith/train/data/dataset.h

// What a job says to the parts that its trainer is made of.
SamplerOptions sampler_options(const Job& job, const Dataset& dataset, Rank rank);
RateOptions rate_options(const Job& job, std::int64_t steps);

}  // namespace kith::train
