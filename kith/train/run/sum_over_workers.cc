#include "kith/train/run/sum_over_workers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace kith::train {

double mean_of(DecentralizedDataParallel& wrapped, double value) {
  const std::vector<double> all = wrapped.gather(value);
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

Summary sum_over_workers(DecentralizedDataParallel& wrapped, Recorder& metrics, const Membership& membership,
                         double seconds_before) {
  const MetricTotals& totals = metrics.totals();
  const auto mean = [&](double value) { return mean_of(wrapped, value); };
  const auto sum = [&](double value) {
    const double of_all = mean(value);
    return of_all * wrapped.world().size();
  };
  Summary summary;
  const double own = mean(totals.seconds);
  summary.seconds = mean(totals.seconds + seconds_before);
  const double waited = mean(totals.waited_seconds);
  const double steps = mean(static_cast<double>(totals.steps));  // workers may have joined later
  summary.seconds_per_iteration = own / std::max(1.0, steps);
  summary.waiting_share = own > 0 ? waited / own : 0;
  summary.bytes_sent = sum(totals.bytes_read);
  summary.metrics_lost = std::llround(sum(static_cast<double>(metrics.unwritten())));
  summary.missing_weight = sum(membership.missing_weight());
  summary.missing_rounds = std::llround(sum(static_cast<double>(membership.missing_rounds())));
  return summary;
}

}  // namespace kith::train
