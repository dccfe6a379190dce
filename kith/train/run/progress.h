#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "kith/base/clock.h"
#include "kith/train/run/metrics.h"

namespace kith::train {

struct ProgressOptions {
  std::FILE* out = stdout;
  bool terminal = false;  // a bar that is drawn over itself; else plain lines
  std::int64_t first_step = 0;
  std::int64_t steps = 0;           // of the run; 0: not known yet
  std::int64_t line_every = 10;     // steps between plain lines
  std::int64_t units_per_step = 1;  // of all workers together
  std::string unit = "sample";
};

// What one worker tells a person while it trains. One thread.
class Progress {
 public:
  Progress(ProgressOptions options, const Clock& clock);
  // Ends a bar's line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepMetrics& metrics);
  void evaluation(const EvalMetrics& metrics);
  void set_steps(std::int64_t steps) { options_.steps = steps; }
  // A line of its own.
  void note(const std::string& text);

 private:
  std::string position() const;
  std::string line() const;
  void clear_bar();
  void draw_bar();

  ProgressOptions options_;
  const Clock& clock_;
  const Clock::Time start_;
  Clock::Time drawn_{};  // the bar, last
  std::int64_t step_ = 0;
  double loss_ = 0;     // smoothed
  double seconds_ = 0;  // of iterations
  double waited_seconds_ = 0;
  std::optional<double> consensus_distance_;
  bool bar_shown_ = false;
};

}  // namespace kith::train
