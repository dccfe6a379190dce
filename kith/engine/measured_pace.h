#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kith/base/job_threads.h"
#include "kith/engine/collectives.h"
#include "kith/engine/pace.h"
#include "kith/optim/control.h"
#include "kith/optim/trigger.h"

namespace kith::engine {

// What a schedule's rounds say about the consensus distance.
struct RoundBounds {
  bool all_alike = false;  // symmetric, and the same in every round: Theta bounds the distance
  double contraction = 1;  // of a round; the geometric mean of a period's where they differ
};

// InputError for more workers than a spectrum can be had of.
RoundBounds bounds_of(const graph::Schedule& schedule);

// Numbers of one worker after a step, or their means over all.
struct PaceNumbers {
  double seconds_per_step = 0;
  double moved = 0;    // ConsensusSample::moved, of the whole model
  double squares = 0;  // ConsensusSample::squares, of the whole model
  double sampled = 0;  // 1 where the two are known
  double update = 0;   // squared norm of what the step did to the model before mixing

  // An upper bound of the consensus distance before mixing where rounds are all alike, otherwise an estimate.
  double distance(const RoundBounds& bounds) const;
};

// Where measurements decide: Note [Pace].
class MeasuredPace final : public Pace {
 public:
  MeasuredPace(const WorldParts& everybody, const EngineOptions& options, const graph::Schedule& schedule,
               std::size_t parameters);

  int rounds(std::int64_t step) const override;
  std::int64_t rounds_before(std::int64_t step) const override;
  bool measures_updates() const override { return control_ && control_->reads_updates(); }
  void begin_at(std::int64_t step) override;
  void begin_step() override;
  void end_step(StepReport& report) override;
  std::span<std::byte> state() override { return std::as_writable_bytes(std::span(&state_, 1)); }
  void resume() override;

 private:
  static constexpr std::int64_t kUnknown = -1;
  using Numbers = std::array<double, sizeof(PaceNumbers) / sizeof(double)>;

  // All that decisions depend on.
  struct State {
    std::int64_t step = 0;                          // the one that comes next
    std::int64_t before = 0;                        // rounds of those before it
    std::int64_t rounds = 0, capped = 0;            // of it; capped: more were wanted
    std::int64_t next = kUnknown, next_capped = 0;  // of the one after it
    std::int64_t planned = 0;                       // the last firing that is decided on
    std::int64_t fired = -1;                        // the last that has happened
    std::int64_t gap = 1;                           // steps from the one before to that
    std::int64_t interval = 1;                      // wanted
    std::int64_t sent = 0;                          // `numbers` are on their way
    double distance = kUnknown;                     // before mixing, as found last
    double update = 0;                              // running mean
    PaceNumbers numbers;                            // of this worker
  };

  // Whether state_ is one that was saved before the step in which this begins.
  bool plausible() const;
  bool fires(std::int64_t step) const;
  void plan_next();
  void take(const PaceNumbers& means);
  // The rounds of a step that mixes.
  std::int64_t rounds_of(std::int64_t step, bool& capped) const;
  PaceNumbers measure(const StepReport& report);
  void send();

  const WorldParts& world_;
  const EngineOptions options_;
  const std::size_t parameters_;
  const std::unique_ptr<optim::Trigger> trigger_;  // null: the next one says when
  const std::optional<optim::MeasuredTrigger> measured_;
  const std::optional<optim::Control> control_;
  const RoundBounds bounds_;
  Collectives collectives_;
  State state_;
  std::int64_t first_ = 0;  // the step in which this begins
  Clock::Time since_;       // seconds per step are counted from there
  std::int64_t since_step_ = 0;
  Numbers means_{};    // of the thread, until it has ended
  JobThreads thread_;  // last: it uses what is above
};

}  // namespace kith::engine
