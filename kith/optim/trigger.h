#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace kith::optim {

// When workers mix: a pure function of the step, so that neighbours agree without a word. Steps count from 0.
class Trigger {
 public:
  virtual ~Trigger() = default;

  virtual bool fires(std::int64_t step) const = 0;
  // How often it fires before `step`.
  virtual std::int64_t fired(std::int64_t step) const = 0;
};

// A trigger by its text:
//   every 4                             steps 3, 7, 11, ...: the last of every four
//   at 0, 10, 40                        these steps
//   from 0 every 1, from 300 every 8    phases, such as those of a learning rate; "from 300 never" ends it
// InputError for anything else.
std::unique_ptr<Trigger> make_trigger(std::string_view text);

// A trigger that goes by what workers measure. Everybody's measurements are averaged first, a step ahead, so
// that neighbours agree (kith/engine/pace.h):
//   every 30 s              as many steps apart as take about 30 seconds
//   distance 0.5 cap 32     about as soon as the consensus distance is 0.5, at the latest after 32 steps
struct MeasuredTrigger {
  double period_s = 0;  // 0: the distance says it
  double distance = 0;
  std::int64_t cap = 1;  // steps between two firings, at most

  // Steps to the next firing, from those of the last interval and what was measured at its end: seconds per
  // step, and the consensus distance before mixing. The distance is taken to grow with the steps; an interval
  // at most doubles. At least 1.
  std::int64_t interval(std::int64_t last, double seconds_per_step, double measured_distance) const;
};

// Nothing for the texts that make_trigger reads. InputError for what neither reads.
std::optional<MeasuredTrigger> measured_trigger(std::string_view text);

}  // namespace kith::optim
