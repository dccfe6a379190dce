#include "kith/engine/pace.h"

#include "kith/engine/measured_pace.h"

namespace kith::engine {
namespace {

// A trigger that is a function of the step, and as many rounds each time.
class FixedPace final : public Pace {
 public:
  explicit FixedPace(const EngineOptions& options)
      : trigger_(make_trigger(options)), rounds_(options.method.rounds) {}

  int rounds(std::int64_t step) const override { return trigger_->fires(step) ? rounds_ : 0; }
  std::int64_t rounds_before(std::int64_t step) const override { return trigger_->fired(step) * rounds_; }
  void end_step(StepReport& report) override { report.rounds = rounds(report.step); }

 private:
  const std::unique_ptr<optim::Trigger> trigger_;
  const int rounds_;
};

}  // namespace

std::unique_ptr<Pace> make_pace(const WorldParts& everybody, const EngineOptions& options,
                                const graph::Schedule& schedule, std::size_t parameters) {
  if (!pace_is_measured(options)) return std::make_unique<FixedPace>(options);
  return std::make_unique<MeasuredPace>(everybody, options, schedule, parameters);
}

}  // namespace kith::engine
