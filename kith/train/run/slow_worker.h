#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "kith/train/data_parallel.h"
#include "kith/train/run/metrics.h"

namespace kith::train {

// Who is so slow that the others stand still for it.
struct SlowWorker {
  WorkerId worker;
  double own = 0;     // seconds of its own a step: the iteration without its waits
  double median = 0;  // of all workers'
  double share = 0;   // of everybody's time, that went into waiting for it directly
};

// "worker 3 on a7 is the slowest: 0.31 s of its own a step, the median is 0.1 s; waiting for it took 12% of
// everybody's time".
std::string text_of(const SlowWorker& slow, const std::string& host);

// The rank of the largest number, where it is at least a quarter above the median.
std::optional<Rank> slowest_of(std::span<const double> own);

// Counts what steps take and whom they wait for, and compares that with the others now and then. A slow
// worker is named; whether it stays a member is for others to say. One thread.
class SlowWorkers {
 public:
  // Tells the others this worker's host, through the Store. `most`: a worker that was named so many times in
  // a row is too slow; 0: none is.
  explicit SlowWorkers(const engine::WorldParts& world, int most = 0);

  void note(const StepMetrics& metrics);
  // Collective. Of the steps since the last call: who was the slowest, where that cost everybody a twentieth
  // of its time or more. The same on all workers.
  std::optional<SlowWorker> ask(DecentralizedDataParallel& wrapped);
  // How many of the last calls, in a row, have named this worker.
  int named() const { return named_; }
  bool too_slow() const { return most_ > 0 && named_ >= most_; }
  // To this worker's log. That it stays is said once.
  void say_it_leaves() const;
  void say_it_stays() const;
  // Where it runs, as far as is known.
  std::string host_of(WorkerId worker) const;

 private:
  const engine::WorldParts& world_;
  const int most_;
  double steps_ = 0, seconds_ = 0, waited_ = 0;
  std::map<WorkerId, double> waited_for_;
  int named_ = 0;
};

}  // namespace kith::train
