#include "kith/engine/round_patience.h"

#include <algorithm>

#include "kith/base/check.h"

namespace kith::engine {

RoundPatience::RoundPatience(const RoundPatienceOptions& options)
    : options_(options), patience_(options.longest) {
  KITH_CHECK(options.at_least > 0 && options.at_least <= options.steps, "some steps are looked at");
}

void RoundPatience::begin_step(Clock::Time now) {
  if (steps_ > 0) {
    const Clock::Duration taken = now - began_;
    if (taken_.size() < options_.steps) {
      taken_.push_back(taken);
    } else {
      taken_[(steps_ - 1) % options_.steps] = taken;
    }
    if (taken_.size() >= options_.at_least) reckon();
  }
  began_ = now;
  ++steps_;
}

void RoundPatience::reckon() {
  std::vector<Clock::Duration> sorted = taken_;
  const auto place = static_cast<std::ptrdiff_t>(options_.quantile * static_cast<double>(sorted.size() - 1));
  std::nth_element(sorted.begin(), sorted.begin() + place, sorted.end());
  const auto wanted = std::chrono::duration_cast<Clock::Duration>(
      options_.times *
      std::chrono::duration<double, Clock::Duration::period>(sorted[static_cast<std::size_t>(place)]));
  patience_ = std::min(options_.longest, std::max(options_.least, wanted));
}

}  // namespace kith::engine
