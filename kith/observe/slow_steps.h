#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kith/observe/line.h"

namespace kith::observe {

struct SlowRow {
  int worker = 0;
  StepLine line;
};

// A step that took much longer than most, with what everybody did around it.
struct SlowStep {
  std::int64_t step = 0;
  std::string sentence;
  std::vector<SlowRow> rows;  // by worker, then by step
};

struct SlowSteps {
  double median_seconds = 0;    // of all workers' iterations
  std::vector<SlowStep> steps;  // the slowest first
};

// Those that took some worker more than twice the median, at most `most`, and not next to each other. Reads
// the folder's files twice.
SlowSteps slow_steps(const std::filesystem::path& folder, std::size_t most = 3);

}  // namespace kith::observe
