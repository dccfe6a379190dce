#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kith/train/config/job.h"

namespace kith::train {

// By itself, by Ctrl-C, by SIGTERM.
enum class Ending : std::uint8_t { finished, interrupted, terminated };

// How a run went, over all workers and over all its parts when it was resumed.
struct Summary {
  Ending ending = Ending::finished;
  std::int64_t steps = 0;
  std::int64_t parameters = 0;
  double validation_loss = 0;
  double validation_accuracy = 0;
  double consensus_distance = 0;
  double seconds = 0;                // of training, mean over workers, without evaluations and checkpoints
  double seconds_per_iteration = 0;  // mean over steps and workers, without evaluations and checkpoints
  double waiting_share = 0;          // of that time
  double units_per_second = 0;       // of all workers together
  std::string unit;                  // "token", "sample"
  double bytes_sent = 0;             // read by neighbours, all workers together
  std::int64_t metrics_lost = 0;  // lines of metrics.jsonl that the disk did not take, all workers together
};

std::string summary_json(const Job& job, const Summary& summary);

// InputError when the file is no summary.
Summary read_summary(const std::filesystem::path& file);

struct SummaryColumn {
  std::string title;
  Summary summary;
};

// Runs side by side, one row per number.
std::string compare(const std::vector<SummaryColumn>& columns);

}  // namespace kith::train
