#pragma once

#include <chrono>

namespace kith {

// Time as an argument: whatever waits or times takes a Clock&, so that tests and the simulator can supply a
// virtual one. All members are safe to call from any thread.
class Clock {
 public:
  using Duration = std::chrono::nanoseconds;
  using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;

  virtual ~Clock() = default;
  virtual Time now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Time now() const override { return std::chrono::steady_clock::now(); }
};

// A point in time after which a wait gives up. There is no "forever": every wait on a peer is bounded.
using Deadline = Clock::Time;

inline double seconds(Clock::Duration d) {
  return std::chrono::duration<double>(d).count();
}
inline Clock::Duration from_seconds(double s) {
  return std::chrono::duration_cast<Clock::Duration>(std::chrono::duration<double>(s));
}

}  // namespace kith
