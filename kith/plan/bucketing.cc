#include "kith/plan/bucketing.h"

#include <cmath>

#include "kith/base/check.h"

namespace kith::plan {
namespace {

using sim::Bucket;
using sim::Distribution;

struct Sum {
  double mean = 0;
  double variance = 0;

  void add(const Distribution& d) {
    mean += d.mean_s();
    variance += std::pow(d.cv() * d.mean_s(), 2);
  }
  Distribution distribution() const {
    return mean > 0 ? Distribution::lognormal(mean, std::sqrt(variance) / mean) : Distribution();
  }
};

Bucket joined(const std::vector<Bucket>& parts) {
  if (parts.size() == 1) return parts.front();
  Sum backward;
  Sum step;
  double bytes = 0;
  for (const Bucket& part : parts) {
    bytes += part.bytes;
    backward.add(part.backward);
    step.add(part.step);
  }
  return {bytes, backward.distribution(), step.distribution()};
}

}  // namespace

sim::Job rebucket(const sim::Job& job, double target_bytes) {
  KITH_CHECK(target_bytes > 0, "bucket size");
  sim::Job cut = job;
  cut.buckets.clear();
  std::vector<Bucket> open;
  double bytes = 0;
  const auto close = [&] {
    if (!open.empty()) cut.buckets.push_back(joined(open));
    open.clear();
    bytes = 0;
  };
  for (const Bucket& bucket : job.buckets) {
    const int parts = std::max(1, static_cast<int>(std::floor(bucket.bytes / target_bytes)));
    const Bucket part{bucket.bytes / parts, bucket.backward.scaled(1.0 / parts),
                      bucket.step.scaled(1.0 / parts)};
    for (int i = 0; i < parts; ++i) {
      open.push_back(part);
      bytes += part.bytes;
      if (bytes >= target_bytes * (1 - 1e-9)) close();
    }
  }
  close();
  return cut;
}

}  // namespace kith::plan
