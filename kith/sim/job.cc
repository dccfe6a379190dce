#include "kith/sim/job.h"

namespace kith::sim {

double Job::bytes() const {
  double sum = 0;
  for (const Bucket& bucket : buckets)
    sum += bucket.bytes;
  return sum;
}

double Job::forward_backward_s() const {
  double sum = forward.mean_s() + straggler.probability * straggler.delay.mean_s();
  for (const Bucket& bucket : buckets)
    sum += bucket.backward.mean_s();
  return sum;
}

double Job::step_s() const {
  double sum = 0;
  for (const Bucket& bucket : buckets)
    sum += bucket.step.mean_s();
  return sum;
}

Job Job::without_spread() const {
  Job job = *this;
  job.forward = Distribution::constant(forward.mean_s() + straggler.probability * straggler.delay.mean_s());
  job.batch = batch.without_spread();
  job.straggler = {};
  for (Bucket& bucket : job.buckets) {
    bucket.backward = bucket.backward.without_spread();
    bucket.step = bucket.step.without_spread();
  }
  return job;
}

Job Job::with_compute_scaled(double factor) const {
  Job job = *this;
  job.forward = forward.scaled(factor);
  for (Bucket& bucket : job.buckets)
    bucket.backward = bucket.backward.scaled(factor);
  return job;
}

}  // namespace kith::sim
