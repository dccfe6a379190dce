#pragma once

#include <cstddef>

#include "kith/sim/vector_target.h"

namespace kith::sim {

// Workers are simulated in blocks of eight lanes: worker i is lane i % kLanes of block i / kLanes. Per-bucket
// times of a block lie together, [block][bucket][lane], so that a block is one short stretch of memory.
inline constexpr std::size_t kLanes = 8;

// The times of one block in one iteration. [bucket * kLanes + lane] where by bucket and lane, in units of the
// bucket's mean; a worker's backward is further multiplied by its pace, its step by its slowness.
struct BlockTimes {
  std::size_t buckets = 0;
  const double* forward = nullptr;  // by lane, seconds
  const double* backward = nullptr;
  const double* backward_mean = nullptr;  // by bucket
  const double* step = nullptr;
  const double* step_mean = nullptr;  // by bucket
  const double* pace = nullptr;       // by lane
  const double* slowness = nullptr;   // by lane
};

// The recursions of one iteration on one block. `now` is by lane the end of the last iteration, and becomes
// the end of this one (gradients: the end of backward). `waited` grows by the time spent blocked on arrivals.
//
// Mixing: `when` holds the arrival of each bucket's neighbours and becomes the time at which the bucket is
// published.
void mix_in_backward(const BlockTimes& times, double* now, double* when, double* waited,
                     VectorTarget target = vector_target());
void mix_at_step(const BlockTimes& times, double* now, double* when, double* waited,
                 VectorTarget target = vector_target());
// All-reduce: `latest` grows to the latest gradient of each bucket and lane.
void run_gradients(const BlockTimes& times, double* now, double* latest,
                   VectorTarget target = vector_target());
// All-reduce: the optimiser step of all buckets, from `now` on.
void run_step(const BlockTimes& times, double* now, VectorTarget target = vector_target());

}  // namespace kith::sim
