#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>

#include "kith/base/log.h"

namespace kith::train {

struct StepMetrics {
  std::int64_t step = 0;  // steps done, this one included
  std::uint64_t epoch = 0;
  double loss = 0;
  double lr = 0;
  std::optional<double> gradient_norm;
  std::optional<double> noise;  // share of the gradients' squares so far, in a step that measures it
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
  double seconds = 0;  // that this worker has trained, without evaluations and checkpoints
};

// Of the steps in a file.
struct MetricTotals {
  std::int64_t steps = 0;
  double seconds = 0;
  double waited_seconds = 0;
  double bytes_read = 0;
};

// One worker's metrics.jsonl: {"kind":"step",...} and {"kind":"eval",...}, in the order of the steps. One
// thread. Writing never throws: lines that the disk does not take are said once, kept, and tried again with
// every line that follows; a file that was removed is written anew, with what it held.
class MetricsFile {
 public:
  // Keeps what an earlier part of the run wrote up to and including `steps_done`; later lines will be written
  // again. Error when the file cannot be written: then it is as it was. `log` may be null.
  MetricsFile(std::filesystem::path file, std::int64_t steps_done, Log* log = nullptr);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // A line is visible to readers when these return, unless the disk says no.
  void write(const StepMetrics& metrics);
  void write(const EvalMetrics& metrics);

  // Of the whole run, what was kept included.
  const MetricTotals& totals() const { return totals_; }
  // Step of the last evaluation in the file, what was kept included; -1: none.
  std::int64_t last_evaluation() const { return last_evaluation_; }
  // Lines that are not on disk, after trying once more.
  std::int64_t unwritten();

 private:
  std::string kept_lines(std::int64_t steps_done);
  void append(std::string line);
  bool flush();
  bool follow_the_path();
  void say_once(const char* problem);

  const std::filesystem::path path_;
  Log* const log_;
  int file_ = -1;
  std::int64_t size_ = 0;            // of what is whole in the file
  std::deque<std::string> pending_;  // lines that are not in it
  std::size_t pending_bytes_ = 0;
  std::int64_t dropped_ = 0;  // lines that found no room to wait
  bool said_ = false;
  MetricTotals totals_;
  std::int64_t last_evaluation_ = -1;
};

}  // namespace kith::train
