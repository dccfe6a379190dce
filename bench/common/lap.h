#pragma once

#include <span>
#include <string>

namespace kith::bench {

// Some training steps, as one worker saw them.
struct Lap {
  double seconds = 0;  // of the timed steps
  double loss = 0;     // of the last one
  double waited = 0;   // seconds of the timed steps spent waiting for neighbours
  double stepped = 0;  // seconds of the timed steps spent in step()

  std::string text() const;  // "done SECONDS LOSS WAITED STEPPED"
  // Error, naming who answered, for anything but text() (the last two numbers may be missing).
  static Lap parse(const std::string& text, const std::string& who);
};

// The seconds of the slowest worker, the mean over the workers of the rest. REQUIRES: at least one.
Lap together(std::span<const Lap> laps);

}  // namespace kith::bench
