#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kith/sim/block.h"
#include "kith/sim/job.h"

namespace kith::sim {

// Draws the compute times of one block of workers in one iteration. The numbers depend on (seed, iteration,
// block) and nothing else, so blocks may be visited in any order. Not thread-safe: it owns the scratch that
// `times` points into.
class Durations {
 public:
  Durations(const Job& job, int workers, std::uint64_t seed);

  // Valid until the next call.
  const BlockTimes& draw(std::int64_t iteration, std::size_t block);

 private:
  struct Run {  // neighbouring slots that share a shape
    const QuantileTable* shape;
    std::size_t first_slot;
    std::size_t slots;
  };

  void add(const Distribution& distribution, std::size_t slot);
  double* slot(std::size_t index) { return values_.data() + index * kLanes; }

  const Job job_;  // keeps the shapes alive
  const std::uint64_t seed_;
  const std::size_t workers_;
  std::vector<Run> runs_;
  std::vector<double> values_;  // unit draws, kLanes for each slot; constants stay at 1
  std::vector<std::uint32_t> words_;
  std::vector<double> backward_mean_;
  std::vector<double> step_mean_;
  std::vector<double> slowness_;  // by worker, 0 in the lanes that pad the last block
  std::array<double, kLanes> pace_{};
  std::array<double, kLanes> forward_{};
  BlockTimes times_;
};

}  // namespace kith::sim
