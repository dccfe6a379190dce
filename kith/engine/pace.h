#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kith/engine/engine.h"
#include "kith/engine/options.h"
#include "kith/engine/world_parts.h"
#include "kith/graph/schedule.h"

namespace kith::engine {

// Note [Pace]
// How many rounds of the schedule each step takes; none where it does not mix. Neighbours must agree, or they
// would wait for messages that nobody sends.
//
// A trigger that is a function of the step needs no word. Where measurements decide (seconds, the consensus
// distance: MeasuredTrigger, Control), every worker puts its numbers on their way at the end of a step t that
// mixed. A thread averages them with everybody while step t + 1 is computed, and all have the same bits
// before they step. From them each decides step t + 2 for itself. So nobody waits in the middle of a step, a
// decision is two steps old, and no worker can be two steps ahead of another one.
//
// A worker that is gone cannot agree to anything: the step in which it is missed fails.
class Pace {
 public:
  virtual ~Pace() = default;

  // Of the step that comes next, or is under way, and of the one after it, once begin_step() was called.
  virtual int rounds(std::int64_t step) const = 0;
  // All rounds of the steps before.
  virtual std::int64_t rounds_before(std::int64_t step) const = 0;
  // Whether StepReport::update_squares is read.
  virtual bool measures_updates() const { return false; }

  // Nothing was measured so far, and `step` comes next.
  virtual void begin_at(std::int64_t) {}
  // Before a step, and before its rounds are asked for. Waits, boundedly; Error when somebody is missing.
  virtual void begin_step() {}
  // What the step measured. Sets `rounds` and `capped`.
  virtual void end_step(StepReport& report) = 0;
  // To be saved after a step and restored; empty: nothing.
  virtual std::span<std::byte> state() { return {}; }
  // state() has been filled, with what was saved after the step before or with zeros: nothing measured.
  // InputError when it is neither.
  virtual void resume() {}
};

// Collective where measurements decide. `everybody` outlives it; waits on its transport end by cancelling
// that. `parameters`: of the model.
std::unique_ptr<Pace> make_pace(const WorldParts& everybody, const EngineOptions& options,
                                const graph::Schedule& schedule, std::size_t parameters);

}  // namespace kith::engine
