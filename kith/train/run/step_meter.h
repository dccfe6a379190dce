#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kith/base/clock.h"
#include "kith/engine/engine.h"
#include "kith/train/run/metrics.h"

namespace kith::train {

// Unix time in seconds: what people and other machines compare.
double unix_time();

// What the world and this machine (host, process, cpu, cores, memory) tell of a worker that begins after
// `step` steps.
StartMetrics start_of(const engine::WorldParts& world, std::int64_t step);

// Turns what the engine reports of a step, and what the transport has counted meanwhile, into the numbers of
// a line. One thread.
class StepMeter {
 public:
  // `units_per_step`: of this worker. The world outlives the meter.
  StepMeter(const engine::WorldParts& world, double units_per_step, std::size_t parameters);

  // An iteration begins: what passed before (an evaluation, a checkpoint) is not its own.
  void begin();
  // It is over: fills all that is known of it here. The rest (loss, rate) is the caller's.
  void end(StepMetrics& metrics, const engine::StepReport& report) const;

  // The totals so far, at most once a second, or `at_once`.
  std::optional<LinkMetrics> links(std::int64_t step, bool at_once = false);

 private:
  const engine::WorldParts& world_;
  const double units_per_step_;
  const std::size_t parameters_;
  Clock::Time start_{};
  comm::Ledger before_;  // at the start
  std::optional<Clock::Time> told_;
};

}  // namespace kith::train
