#include "kith/train/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

void require(bool good, const std::string& key, double value, const std::string& range) {
  if (!good) throw InputError(cat(value, " is out of range"), cat("rate.", key), range);
}

double cosine(const RateOptions& o, std::int64_t step) {
  const double done =
      static_cast<double>(step - o.warmup_steps) / static_cast<double>(o.total_steps - o.warmup_steps);
  const double wave = 0.5 * (1 + std::cos(std::numbers::pi * std::min(done, 1.0)));
  return o.lr * (o.final_fraction + (1 - o.final_fraction) * wave);
}

}  // namespace

std::vector<std::string> rate_curves() {
  return {"constant", "cosine", "inverse-sqrt", "step"};
}

void validate(const RateOptions& o) {
  const std::vector<std::string> curves = rate_curves();
  if (std::find(curves.begin(), curves.end(), o.curve) == curves.end()) {
    throw InputError(cat("'", o.curve, "' is not a curve"), "rate.curve", suggest(o.curve, curves));
  }
  require(std::isfinite(o.lr) && o.lr >= 0, "lr", o.lr, "at least 0");
  require(o.warmup_steps >= 0, "warmup", static_cast<double>(o.warmup_steps), "at least 0 steps");
  require(o.warmup_start >= 0 && o.warmup_start <= 1, "warmup_start", o.warmup_start,
          "0 to 1, a fraction of lr");
  require(o.final_fraction >= 0 && o.final_fraction <= 1, "final_fraction", o.final_fraction,
          "0 to 1, a fraction of lr");
  require(o.curve != "cosine" || o.total_steps > o.warmup_steps, "total_steps",
          static_cast<double>(o.total_steps), cat("more than the ", o.warmup_steps, " steps of warm-up"));
  require(o.every >= 1, "every", static_cast<double>(o.every), "at least 1 step");
  require(o.factor > 0 && o.factor <= 1, "factor", o.factor, "above 0, at most 1");
}

double lr_at(const RateOptions& o, std::int64_t step) {
  if (step < o.warmup_steps) {
    const double done = static_cast<double>(step) / static_cast<double>(o.warmup_steps);
    return o.lr * (o.warmup_start + (1 - o.warmup_start) * done);
  }
  if (o.curve == "cosine") return cosine(o, step);
  if (o.curve == "inverse-sqrt") {
    const auto knee = static_cast<double>(std::max<std::int64_t>(o.warmup_steps, 1));
    return o.lr * std::sqrt(knee / static_cast<double>(step + 1));
  }
  if (o.curve == "step") return o.lr * std::pow(o.factor, static_cast<double>(step / o.every));
  return o.lr;
}

}  // namespace kith::train
