#pragma once

#include <vector>

#include "kith/engine/world_parts.h"
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
  double message_s_per_byte = 0;  // as message_cost says
};

// What computing takes without messages and with them, means over the workers and their iterations.
struct MessageTimes {
  double alone_s = 0;     // forward and backward
  double mixing_s = 0;    // the same, while models travel
  double waited_s = 0;    // besides, for models under way
  double sent_bytes = 0;  // by a worker to other machines in an iteration; as many come in
};

// Seconds of computing that a worker loses to a byte sent while it computes. What is under way travels
// evenly, so of an iteration's bytes those that travel while a worker waits cost nothing. 0 when computing is
// slowed down too little to be told from chance (2%).
double message_cost(const MessageTimes& times);

struct ProfilerOptions {
  int steps = 40;
  int warm_up = 5;
};

// Runs the job's model on its data, on the job's device and in its precision, for some dozens of steps, all
// workers at once: forward, backward bucket by bucket, and step, without any communication; then the same
// while neighbours mix. Trains nothing that is kept. Collective.
JobTimes profile_job(const Job& job, const Dataset& dataset, const engine::WorldParts& world,
                     const ProfilerOptions& options);

}  // namespace kith::train
