#pragma once

#include "kith/base/clock.h"

namespace kith::sim {

// A clock that moves only when it is told to. Not thread-safe.
class VirtualClock final : public Clock {
 public:
  Time now() const override { return now_; }
  // REQUIRES: elapsed >= 0.
  void advance(Duration elapsed) { now_ += elapsed; }

 private:
  Time now_{};
};

}  // namespace kith::sim
