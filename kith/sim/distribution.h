#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kith/sim/quantile_table.h"

namespace kith::sim {

// A non-negative random duration: a mean in seconds and a shape of mean 1. A value type, cheap to copy;
// copies share the shape. Immutable but for its scale.
class Distribution {
 public:
  // Always `mean_s`. InputError when negative or not finite (here and below).
  static Distribution constant(double mean_s);
  // Normal, cut off at zero and scaled back to the mean asked for.
  static Distribution normal(double mean_s, double standard_deviation_s);
  // `cv` is the standard deviation over the mean.
  static Distribution lognormal(double mean_s, double cv);
  // The distribution of measured values, linear between them. InputError when empty.
  static Distribution samples(std::vector<double> values_s);

  Distribution() = default;  // constant zero

  double mean_s() const { return mean_s_; }
  double cv() const { return shape_ ? shape_->standard_deviation() : 0; }
  bool is_constant() const { return shape_ == nullptr; }
  // Null when constant. Distributions that share a shape are drawn in one pass.
  const std::shared_ptr<const QuantileTable>& shape() const { return shape_; }

  // The same shape with `factor` times the mean. REQUIRES: factor >= 0 and finite.
  Distribution scaled(double factor) const;
  // The same mean with no spread.
  Distribution without_spread() const { return constant(mean_s_); }

 private:
  double mean_s_ = 0;
  std::shared_ptr<const QuantileTable> shape_;
};

// The standard normal quantile, for 0 < p < 1; to about 1e-14 relative in both tails' own p.
double normal_quantile(double p);

}  // namespace kith::sim
