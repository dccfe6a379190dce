#include "kith/optim/trigger.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/optim/text_reader.h"

namespace kith::optim {
namespace {

constexpr const char* kRemedy =
    "'every 4', 'at 0, 10, 40', 'from 0 every 1, from 300 every 8', 'every 30 s', or 'distance 0.5 cap 32'";
constexpr std::int64_t kLongest = std::int64_t{1} << 40;  // steps of an interval

// From step `first` on, the last of every `period` steps; 0: none.
struct Phase {
  std::int64_t first = 0;
  std::int64_t period = 1;
};

class Phases final : public Trigger {
 public:
  explicit Phases(std::vector<Phase> phases) : phases_(std::move(phases)) {}

  bool fires(std::int64_t step) const override { return fired(step + 1) > fired(step); }

  std::int64_t fired(std::int64_t step) const override {
    std::int64_t count = 0;
    for (std::size_t k = 0; k < phases_.size() && phases_[k].first < step; ++k) {
      const std::int64_t end = k + 1 < phases_.size() ? std::min(phases_[k + 1].first, step) : step;
      if (phases_[k].period > 0) count += (end - phases_[k].first) / phases_[k].period;
    }
    return count;
  }

 private:
  const std::vector<Phase> phases_;  // ascending
};

class At final : public Trigger {
 public:
  explicit At(std::vector<std::int64_t> steps) : steps_(std::move(steps)) {}

  bool fires(std::int64_t step) const override { return std::ranges::binary_search(steps_, step); }
  std::int64_t fired(std::int64_t step) const override {
    return std::ranges::lower_bound(steps_, step) - steps_.begin();
  }

 private:
  const std::vector<std::int64_t> steps_;  // ascending
};

}  // namespace

std::unique_ptr<Trigger> make_trigger(std::string_view text) {
  TextReader reader(text, "trigger", kRemedy);
  if (reader.word("at")) {
    std::vector<std::int64_t> steps;
    do {
      const std::int64_t step = reader.number(steps.empty() ? 0 : steps.back() + 1);
      steps.push_back(step);
    } while (reader.word(","));
    if (!reader.ends()) reader.fail();
    return std::make_unique<At>(std::move(steps));
  }
  std::vector<Phase> phases;
  do {
    Phase phase;
    if (reader.word("from")) {
      phase.first = reader.number(phases.empty() ? 0 : phases.back().first + 1);
    } else if (!phases.empty()) {
      reader.fail();
    }
    if (reader.word("never")) {
      phase.period = 0;
    } else if (reader.word("every")) {
      phase.period = reader.number(1);
    } else {
      reader.fail();
    }
    phases.push_back(phase);
  } while (reader.word(","));
  if (!reader.ends()) reader.fail();
  return std::make_unique<Phases>(std::move(phases));
}

std::int64_t MeasuredTrigger::interval(std::int64_t last, double seconds_per_step,
                                       double measured_distance) const {
  const double wanted =
      period_s > 0 ? period_s / seconds_per_step : static_cast<double>(last) * distance / measured_distance;
  const std::int64_t most = period_s > 0 ? kLongest : std::min(cap, 2 * last);
  if (!(wanted < static_cast<double>(most))) return most;  // also nothing measured: not a number
  return std::max<std::int64_t>(1, std::llround(wanted));
}

std::optional<MeasuredTrigger> measured_trigger(std::string_view text) {
  TextReader reader(text, "trigger", kRemedy);
  MeasuredTrigger trigger;
  if (reader.word("distance")) {
    trigger.distance = reader.real();
    if (!reader.word("cap")) reader.fail();
    trigger.cap = reader.number(1);
    if (!reader.ends() || trigger.distance == 0) reader.fail();
    return trigger;
  }
  if (!text.ends_with('s') || !reader.word("every")) return {};
  trigger.period_s = reader.real();
  if (!reader.word("s") || !reader.ends() || trigger.period_s == 0) reader.fail();
  return trigger;
}

}  // namespace kith::optim
