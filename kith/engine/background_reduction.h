#pragma once

#include <span>
#include <vector>

#include "kith/base/job_threads.h"
#include "kith/engine/bucket.h"
#include "kith/engine/segment.h"
#include "kith/engine/world_parts.h"

namespace kith::engine {

struct BackgroundReductionOptions {
  std::size_t segments = 0;
  std::vector<Bucket*> buckets;
  Clock::Duration patience{};
  kernels::Device* device = nullptr;
  int threads = 1;  // buckets that are averaged at once
};

// Averages gradients while backward goes on: bucket by bucket, in their order, each when all of its gradients
// are final. One thread calls it.
class BackgroundReduction {
 public:
  BackgroundReduction(const WorldParts& world, BackgroundReductionOptions options);

  // Segment i's gradient is final.
  void ready(std::size_t segment, const SegmentInput& input);
  // Takes the gradients that were not reported, and returns when all are averaged; nothing when this step's
  // are.
  void finish(std::span<const SegmentInput> inputs);
  // In place of finish(), where somebody is gone: returns when nothing is under way. REQUIRES: its waits are
  // cancelled.
  void abandon();
  // What finish() has waited in this step. The reductions' own waits are of threads beside the step's,
  // several at a time.
  Clock::Duration waited() const { return waited_; }
  // The step is done: what follows is the next one's.
  void reset();

 private:
  void submit_complete();

  const WorldParts& world_;
  const BackgroundReductionOptions options_;
  std::vector<std::vector<std::size_t>> buckets_of_;  // by segment
  std::vector<SegmentInput> inputs_;                  // of the step under way
  std::vector<bool> is_ready_;
  std::vector<std::size_t> missing_;  // by bucket
  std::size_t submitted_ = 0;         // buckets on their way
  bool finished_ = false;             // this step's gradients are averaged
  Clock::Duration waited_{};
  JobThreads threads_;  // last: they end before what their jobs use
};

}  // namespace kith::engine
