#include "kith/engine/measured_pace.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/graph/matrix.h"
#include "kith/graph/spectrum.h"

namespace kith::engine {
namespace {

constexpr int kMostWorkers = 512;      // whose spectrum is a matter of seconds
constexpr double kMemory = 0.9;        // of the running mean of updates
constexpr std::size_t kCapacity = 64;  // elements of the windows

bool needs_distance(const EngineOptions& options) {
  const auto trigger = optim::measured_trigger(options.trigger);
  return !options.control.empty() || (trigger && trigger->period_s == 0);
}

}  // namespace

RoundBounds bounds_of(const graph::Schedule& schedule) {
  if (schedule.workers() > kMostWorkers) {
    throw InputError(cat("a consensus distance to go by, among ", schedule.workers(), " workers"), "control",
                     cat("up to ", kMostWorkers, " workers; or a trigger and rounds that are fixed"));
  }
  const auto period = static_cast<double>(schedule.period());
  RoundBounds bounds;
  bounds.all_alike = schedule.period() == 1 && !schedule.directed() &&
                     graph::stochasticity_of(graph::mixing_matrix(schedule, 0)).symmetric();
  bounds.contraction = std::pow(graph::spectrum_of(schedule).contraction, 1 / period);
  return bounds;
}

double PaceNumbers::distance(const RoundBounds& bounds) const {
  if (sampled <= 0) return 0;
  return bounds.all_alike ? std::sqrt(moved / sampled) / (1 - bounds.contraction)
                          : std::sqrt(squares / sampled);
}

MeasuredPace::MeasuredPace(const WorldParts& everybody, const EngineOptions& options,
                           const graph::Schedule& schedule, std::size_t parameters)
    : world_(everybody),
      options_(options),
      parameters_(parameters),
      trigger_(optim::measured_trigger(options.trigger) ? nullptr : make_trigger(options)),
      measured_(optim::measured_trigger(options.trigger)),
      control_(options.control.empty() ? std::nullopt
                                       : std::optional<optim::Control>(std::in_place, options.control)),
      bounds_(needs_distance(options) ? bounds_of(schedule) : RoundBounds{}),
      collectives_(world_, {options.name + "/pace", options.patience, kCapacity}),
      since_(everybody.clock->now()) {
  collectives_.of<double>();  // here, where all members open windows in the same order
  begin_at(0);
}

void MeasuredPace::begin_at(std::int64_t step) {
  state_ = {};
  first_ = step;
  state_.step = step;
  state_.planned = step;
  state_.fired = step - 1;
  since_step_ = step;
  bool capped = false;  // nothing is, before anything is known
  if (!trigger_ || trigger_->fires(step)) state_.rounds = rounds_of(step, capped);
}

bool MeasuredPace::fires(std::int64_t step) const {
  return trigger_ ? trigger_->fires(step) : step - state_.planned >= state_.interval;
}

std::int64_t MeasuredPace::rounds_of(std::int64_t step, bool& capped) const {
  if (!control_) return options_.method.rounds;
  const std::optional<double> target = control_->target(step, state_.update);
  if (!target) return 1;
  // Before anything is known, models are equal, and a step moves them apart: all that is allowed.
  if (state_.distance < 0 && !std::isinf(*target)) return options_.method.rounds;
  const std::int64_t wanted = optim::rounds_for(*target, state_.distance, bounds_.contraction);
  capped = wanted > options_.method.rounds;
  return std::min<std::int64_t>(wanted, options_.method.rounds);
}

int MeasuredPace::rounds(std::int64_t step) const {
  KITH_CHECK(step == state_.step || (step == state_.step + 1 && state_.next != kUnknown),
             "rounds are known of this step and the next");
  return static_cast<int>(step == state_.step ? state_.rounds : state_.next);
}

std::int64_t MeasuredPace::rounds_before(std::int64_t step) const {
  return step == state_.step ? state_.before : state_.before + rounds(step - 1);
}

void MeasuredPace::begin_step() {
  if (state_.next != kUnknown) return;
  if (state_.sent != 0) {
    thread_.drain();
    state_.sent = 0;
    take(std::bit_cast<PaceNumbers>(means_));
  }
  plan_next();
}

void MeasuredPace::take(const PaceNumbers& means) {
  state_.distance = means.distance(bounds_);
  const double update = std::sqrt(means.update);
  state_.update = state_.update == 0 ? update : std::lerp(update, state_.update, kMemory);
  if (measured_) state_.interval = measured_->interval(state_.gap, means.seconds_per_step, state_.distance);
}

void MeasuredPace::plan_next() {
  const std::int64_t step = state_.step + 1;
  state_.next = 0;
  bool capped = false;
  if (fires(step)) {
    state_.planned = step;
    state_.next = rounds_of(step, capped);
  }
  if (capped && state_.capped == 0 && world_.rank() == 0) {
    world_.log->warning(
        cat("step ", step, ": the ", state_.next,
            " rounds that are allowed do not bring models to the distance that control wants ("
            "before mixing it was ",
            state_.distance, " at most); more rounds per step would"));
  }
  state_.next_capped = capped ? 1 : 0;
}

void MeasuredPace::end_step(StepReport& report) {
  report.rounds = static_cast<int>(state_.rounds);
  report.capped = state_.capped != 0;
  if (state_.rounds > 0) {
    state_.gap = state_.step - state_.fired;
    state_.fired = state_.step;
    state_.numbers = measure(report);
    send();
  }
  state_.before += state_.rounds;
  state_.rounds = state_.next;
  state_.capped = state_.next_capped;
  state_.next = kUnknown;
  ++state_.step;
}

PaceNumbers MeasuredPace::measure(const StepReport& report) {
  const Clock::Time now = world_.clock->now();
  PaceNumbers numbers;
  numbers.seconds_per_step = seconds(now - since_) / static_cast<double>(report.step + 1 - since_step_);
  since_ = now;
  since_step_ = report.step + 1;
  if (report.consensus.elements > 0) {
    const double scale = static_cast<double>(parameters_) / static_cast<double>(report.consensus.elements);
    numbers.moved = report.consensus.moved * scale;
    numbers.squares = report.consensus.squares * scale;
    numbers.sampled = 1;
  }
  numbers.update = report.update_squares;
  return numbers;
}

void MeasuredPace::send() {
  state_.sent = 1;
  means_ = std::bit_cast<Numbers>(state_.numbers);
  thread_.submit([this] {
    const Deadline deadline = world_.clock->now() + options_.patience;
    require_everybody(collectives_.of<double>().mean(means_, deadline),
                      cat(world_.self(), ", agreeing on when to mix"));
  });
}

bool MeasuredPace::plausible() const {
  const State& s = state_;
  const auto within = [](std::int64_t value, std::int64_t low, std::int64_t high) {
    return low <= value && value <= high;
  };
  return s.step == first_ && within(s.rounds, 0, options_.method.rounds) && s.next == kUnknown &&
         within(s.before, 0, s.step * options_.method.rounds) && within(s.planned, 0, s.step) &&
         within(s.fired, -1, s.step) && s.gap >= 1 && s.interval >= 1 && !std::isnan(s.distance) &&
         s.update >= 0;
}

void MeasuredPace::resume() {
  const auto bytes = state();
  const bool zeros = std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
  if (zeros) begin_at(first_);
  if (!plausible()) {
    throw InputError(cat("was saved before step ", state_.step, ", and step ", first_, " comes next"),
                     "state of the pace", "take another checkpoint");
  }
  since_ = world_.clock->now();
  since_step_ = state_.step;
  if (state_.sent != 0) send();
}

}  // namespace kith::engine
