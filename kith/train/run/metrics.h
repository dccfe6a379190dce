#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace kith::train {

struct StepMetrics {
  std::int64_t step = 0;  // steps done, this one included
  std::uint64_t epoch = 0;
  double loss = 0;
  double lr = 0;
  std::optional<double> gradient_norm;
  bool skipped = false;
  double seconds = 0;  // the whole iteration
  double waited_seconds = 0;
  std::uint64_t bytes_read = 0;  // of neighbours
  std::uint64_t bytes_published = 0;
};

// Of the averaged model.
struct EvalMetrics {
  std::int64_t step = 0;
  double loss = 0;
  double accuracy = 0;  // of the most likely class
  double consensus_distance = 0;
};

// Of the steps in a file.
struct MetricTotals {
  std::int64_t steps = 0;
  double seconds = 0;
  double waited_seconds = 0;
  double bytes_read = 0;
};

// One worker's metrics.jsonl: {"kind":"step",...} and {"kind":"eval",...}, in the order of the steps. One
// thread.
class MetricsFile {
 public:
  // Keeps what an earlier part of the run wrote up to and including `steps_done`; later lines will be written
  // again. Error when the file cannot be written.
  MetricsFile(const std::filesystem::path& file, std::int64_t steps_done);

  // A line is visible to readers when these return.
  void write(const StepMetrics& metrics);
  void write(const EvalMetrics& metrics);

  // Of the whole run, what was kept included.
  const MetricTotals& totals() const { return totals_; }

 private:
  std::string kept_lines(const std::filesystem::path& file, std::int64_t steps_done);

  std::ofstream out_;
  MetricTotals totals_;
};

}  // namespace kith::train
