#include "kith/train/grad_scaler.h"

#include <cmath>
#include <cstring>
#include <string_view>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

struct State {
  double scale;
  std::int64_t good_steps;
};

void require(bool good, double value, std::string_view name, std::string_view range) {
  if (!good) throw InputError(cat(value, " is out of range"), cat("gradient scaler, ", name), range);
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options), scale_(options.scale) {
  require(options.scale > 0 && std::isfinite(options.scale), options.scale, "scale", "above 0");
  require(options.growth >= 1, options.growth, "growth", "at least 1");
  require(options.backoff > 0 && options.backoff < 1, options.backoff, "backoff", "between 0 and 1");
  require(options.interval > 0, static_cast<double>(options.interval), "interval", "at least 1");
}

StepReport GradScaler::step(DecentralizedDataParallel& model, const StepOptions& options) {
  KITH_CHECK(model.options().non_finite == NonFinite::skip, "a scaled loss overflows now and then");
  StepOptions unscaled = options;
  unscaled.gradient_scale /= scale_;
  StepReport report = model.step(unscaled);
  if (report.skipped) {
    scale_ *= options_.backoff;
    good_steps_ = 0;
  } else if (++good_steps_ == options_.interval) {
    scale_ *= options_.growth;
    good_steps_ = 0;
  }
  return report;
}

std::vector<std::byte> GradScaler::state() const {
  const State state{scale_, good_steps_};
  std::vector<std::byte> bytes(sizeof state);
  std::memcpy(bytes.data(), &state, sizeof state);
  return bytes;
}

void GradScaler::restore(std::span<const std::byte> bytes) {
  State state{};
  if (bytes.size() != sizeof state) {
    throw InputError(cat(bytes.size(), " bytes, wanted ", sizeof state), "gradient scaler of the checkpoint");
  }
  std::memcpy(&state, bytes.data(), sizeof state);
  require(state.scale > 0 && std::isfinite(state.scale), state.scale, "scale of the checkpoint", "above 0");
  scale_ = state.scale;
  good_steps_ = state.good_steps;
}

}  // namespace kith::train
