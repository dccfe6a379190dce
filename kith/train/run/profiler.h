#pragma once

#include <vector>

#include "kith/engine/world.h"
#include "kith/train/config/job.h"

namespace kith::train {

class Dataset;  // kith/train/data/dataset.h

struct BucketTimes {
  double bytes = 0;  // of its parameters as fp32
  std::vector<double> backward_s;
  std::vector<double> step_s;  // mix and optimizer, without waiting
};

// One worker's times, a sample per step. What varies for a whole iteration at once is in batch_cv and taken
// out of the samples.
struct JobTimes {
  std::vector<double> forward_s;     // all that comes before the last backward
  std::vector<BucketTimes> buckets;  // in backward order
  double batch_cv = 0;
  std::vector<double> compute_s;  // every worker's mean of forward and backward, in rank order
};

struct ProfilerOptions {
  int steps = 40;
  int warm_up = 5;
};

// Runs the job's model on its data, on the job's device and in its precision, for some dozens of steps, all
// workers at once: forward, and backward
// bucket by bucket, without any communication; then steps that mix with a neighbour. Trains nothing that is
// kept. Collective.
JobTimes profile_job(const Job& job, const Dataset& dataset, const engine::World& world,
                     const ProfilerOptions& options);

}  // namespace kith::train
