#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kith/base/ids.h"
#include "kith/base/log.h"
#include "kith/comm/ledger.h"

namespace kith::train {

// What a step had to do with one peer.
struct PeerMetrics {
  WorkerId peer;
  double waited_seconds = 0;  // for it, in whatever thread: the step need not have stood still
  std::uint64_t bytes_read = 0;
};

// Times are Unix times, in seconds, of this worker's machine.
struct StepMetrics {
  std::int64_t step = 0;  // steps done, this one included
  double time = 0;
  std::uint32_t view = 0;
  std::uint64_t epoch = 0;
  double loss = 0;
  double lr = 0;
  std::optional<double> gradient_norm;
  std::optional<double> noise;  // share of the gradients' squares so far, in a step that measures it
  bool skipped = false;
  double seconds = 0;            // the whole iteration
  double waited_seconds = 0;     // for neighbours, while the step stood still
  double held_up_seconds = 0;    // by readers who held a slot that was wanted
  double units_per_second = 0;   // tokens or samples, of this worker
  std::uint64_t bytes_read = 0;  // of neighbours
  std::uint64_t bytes_published = 0;
  std::optional<double> consensus;  // distance, as far as this worker can tell
  std::vector<WorkerId> late, lost;
  std::vector<PeerMetrics> peers;  // whom it read or waited for; of many, those it waited for longest
};

// A worker begins, or goes on with a run.
struct StartMetrics {
  std::int64_t step = 0;  // steps done before
  double time = 0;
  WorkerId worker;
  int workers = 0;
  int machine = 0;            // as the transport numbers them
  std::int64_t steps = 0;     // of the whole run; 0: a time decides
  double seconds = 0;         // that time
  std::string unit;           // "token"
  double units_per_step = 0;  // of this worker
  std::string backend;
  std::vector<std::pair<std::string, std::string>> environment;  // {"host", "a7"}
};

// Who is there from a step on.
struct MembersMetrics {
  std::int64_t step = 0;
  double time = 0;
  Members members;
};

// What it costs that a worker is gone, as those who are left agree on it a step later.
struct LossMetrics {
  std::int64_t step = 0;
  double time = 0;
  WorkerId worker;
  std::int64_t heard = 0;  // steps of it that are in a model of those who are left
  double mean_shift = 0;   // distance; NaN: not known
  std::int64_t samples_again = 0;
  std::int64_t samples_unseen = 0;
};

// What has passed between this worker and each other one since it began.
struct LinkMetrics {
  std::int64_t step = 0;
  double time = 0;
  comm::Ledger ledger;
};

// How this worker's part ended. A worker without such a line still runs, or was killed.
struct EndMetrics {
  std::int64_t step = 0;
  double time = 0;
  std::string ending;  // "finished", "interrupted", "terminated", "failed"
  std::string error;   // of one that failed
};

// Of the averaged model.
struct EvalMetrics {
  std::int64_t step = 0;
  double time = 0;
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

// One worker's metrics.jsonl: a JSON object per line, in the order of the steps; "kind" is step, eval, start,
// members, loss, links or end (docs/seeing.md has the fields). One thread. Writing never throws: lines that
// the disk does not take are said once, kept, and tried again with every line that follows; a file that was
// removed is written anew, with what it held.
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
  void write(const StartMetrics& metrics);
  void write(const MembersMetrics& metrics);
  void write(const LossMetrics& metrics);
  void write(const LinkMetrics& metrics);
  void write(const EndMetrics& metrics);

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
