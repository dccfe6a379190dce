#include "kith/sim/distribution.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::sim {
namespace {

double checked(double value, std::string_view what) {
  if (!(value >= 0) || !std::isfinite(value))
    throw InputError(cat(what, " is ", value), "distribution", "durations are finite and not negative");
  return value;
}

}  // namespace

// A rational start (Hastings' form, 4.5e-4) and three Newton steps on the tail probability.
double normal_quantile(double p) {
  KITH_CHECK(p > 0 && p < 1, cat("no normal quantile at ", p));
  if (p > 0.5) return -normal_quantile(1 - p);
  const double s = std::sqrt(-2 * std::log(p));
  double z = -(s - (2.515517 + s * (0.802853 + s * 0.010328)) /
                       (1 + s * (1.432788 + s * (0.189269 + s * 0.001308))));
  for (int i = 0; i < 3; ++i) {
    const double tail = 0.5 * std::erfc(-z / std::numbers::sqrt2);
    const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
    const double step = (tail - p) / density;
    z -= step / (1 + 0.5 * z * step);
  }
  return z;
}

Distribution Distribution::constant(double mean_s) {
  Distribution d;
  d.mean_s_ = checked(mean_s, "the mean");
  return d;
}

Distribution Distribution::normal(double mean_s, double standard_deviation_s) {
  Distribution d = constant(mean_s);
  if (checked(standard_deviation_s, "the standard deviation") == 0 || mean_s == 0) return d;
  const double cv = standard_deviation_s / mean_s;
  d.shape_ =
      std::make_shared<QuantileTable>([cv](double p) { return std::max(0.0, 1 + cv * normal_quantile(p)); },
                                      [cv](double p) { return std::max(0.0, 1 - cv * normal_quantile(p)); });
  return d;
}

Distribution Distribution::lognormal(double mean_s, double cv) {
  Distribution d = constant(mean_s);
  if (checked(cv, "the coefficient of variation") == 0 || mean_s == 0) return d;
  const double sigma = std::sqrt(std::log1p(cv * cv));
  d.shape_ =
      std::make_shared<QuantileTable>([sigma](double p) { return std::exp(sigma * normal_quantile(p)); },
                                      [sigma](double p) { return std::exp(-sigma * normal_quantile(p)); });
  return d;
}

Distribution Distribution::samples(std::vector<double> values_s) {
  if (values_s.empty()) throw InputError("no samples", "distribution", "give at least one measured value");
  for (const double value : values_s)
    checked(value, "a sample");
  std::sort(values_s.begin(), values_s.end());
  const double mean =
      std::accumulate(values_s.begin(), values_s.end(), 0.0) / static_cast<double>(values_s.size());
  Distribution d = constant(mean);
  if (values_s.front() == values_s.back()) return d;
  const auto at = [&values_s](double p) {
    const double place = std::clamp(p * static_cast<double>(values_s.size()) - 0.5, 0.0,
                                    static_cast<double>(values_s.size() - 1));
    const auto below = std::min(static_cast<std::size_t>(place), values_s.size() - 2);
    return std::lerp(values_s[below], values_s[below + 1], place - static_cast<double>(below));
  };
  d.shape_ = std::make_shared<QuantileTable>(at, [&at](double p) { return at(1 - p); });
  return d;
}

Distribution Distribution::scaled(double factor) const {
  KITH_CHECK(factor >= 0 && std::isfinite(factor), cat("scale ", factor));
  Distribution d = *this;
  d.mean_s_ *= factor;
  return d;
}

}  // namespace kith::sim
