#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "kith/train/run/metrics.h"
#include "kith/train/run/step_meter.h"
#include "kith/train/run/summary.h"

namespace kith::train {

struct RecordedRun {
  std::filesystem::path file;  // metrics.jsonl
  std::int64_t steps_done = 0;
  std::int64_t steps = 0;  // of the whole run; 0: a time decides
  double seconds = 0;      // that time
  std::int64_t parameters = 0;
  std::string unit;                                              // "token"
  double units_per_step = 0;                                     // of this worker
  std::vector<std::pair<std::string, std::string>> environment;  // besides what the machine tells
};

// One worker's metrics.jsonl from its beginning to its end: what a trainer tells goes there, and what can be
// counted without it. One thread.
class Recorder {
 public:
  // Writes who begins, and with whom. Error as MetricsFile.
  Recorder(const engine::WorldParts& world, const RecordedRun& run);

  // Around an iteration; the second fills what is known here (StepMeter).
  void begin_step() { meter_.begin(); }
  void end_step(StepMetrics& metrics, const engine::StepReport& report) { meter_.end(metrics, report); }

  // The step, and once a second what has passed between this worker and the others.
  void write(const StepMetrics& metrics);
  // `time` is filled in.
  void write(EvalMetrics metrics);
  // Who is there from the last step on.
  void write_members(const Members& members);

  // What the loss of a worker cost.
  void write_loss(const Loss& loss);

  // Runs the rest of the worker's part and writes how it ended.
  template <class Run>
  Summary until_the_end(const Run& run) {
    try {
      const Summary summary = run();
      write_end(std::string(name_of(summary.ending)), {});
      return summary;
    } catch (const std::exception& error) {
      write_end("failed", error.what());
      throw;
    }
  }

  const MetricTotals& totals() const { return file_.totals(); }
  std::int64_t last_evaluation() const { return file_.last_evaluation(); }
  std::int64_t unwritten() { return file_.unwritten(); }

 private:
  void write_end(const std::string& ending, const std::string& error);

  MetricsFile file_;
  StepMeter meter_;
  std::int64_t step_;  // the last one written
};

}  // namespace kith::train
