#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kith/train/config/job.h"

namespace kith::train {

// By itself, by Ctrl-C, by SIGTERM; `left`: of one worker, which the others go on without.
enum class Ending : std::uint8_t { finished, interrupted, terminated, left };

// "finished", "interrupted", "terminated", "left".
std::string_view name_of(Ending ending);

// The run went on without a worker, and what that cost. What it costs is known a step later; of a worker lost
// at the very end it is not.
struct Loss {
  int worker = 0;
  std::int64_t step = 0;  // the first without it
  int view = 0;
  std::int64_t heard = -1;          // steps of it that are in a model of those who are left; -1: not known
  double mean_shift = NAN;          // distance that the mean of all models moves without it; NaN: not known
  std::int64_t samples_again = 0;   // that it was dealt, nobody heard of, and others see in its place
  std::int64_t samples_unseen = 0;  // likewise, of an epoch that is over: nobody sees them
};

// Why a worker left: somebody asked it to, or it was the slowest for so long that it was left out.
inline constexpr std::string_view kAsked = "asked";
inline constexpr std::string_view kSlow = "slow";

// A worker came, or left on purpose.
struct Passage {
  int worker = 0;
  std::int64_t step = 0;  // the first with it, or without it
  int view = 0;
  std::string why = {};  // of one that left: kAsked or kSlow
};

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
  int views = 1;                     // that there were
  std::vector<Loss> lost;            // workers, in the order in which they went
  std::vector<Passage> joined;       // in the order in which they came
  std::vector<Passage> left;         // on purpose, in the order in which they did
  double missing_weight = 0;  // of neighbours in rounds that had to do without them, all workers together
  std::int64_t missing_rounds = 0;  // steps of a worker in which some was missing, all workers together
  std::int64_t metrics_lost = 0;    // lines of metrics.jsonl that the disk did not take, all workers together
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
