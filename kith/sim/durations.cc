#include "kith/sim/durations.h"

#include <algorithm>

#include "kith/base/rng.h"

namespace kith::sim {
namespace {

// Slots of a block's draws: three for the iteration, then backward and step of each bucket.
constexpr std::size_t kBatch = 0;
constexpr std::size_t kForward = 1;
constexpr std::size_t kDelay = 2;
constexpr std::size_t kPerIteration = 3;

}  // namespace

Durations::Durations(const Job& job, int workers, std::uint64_t seed)
    : job_(job), seed_(seed), workers_(static_cast<std::size_t>(workers)) {
  const std::size_t buckets = job_.buckets.size();
  const std::size_t slots = kPerIteration + 2 * buckets;
  values_.assign(slots * kLanes, 1.0);
  words_.resize(slots * kLanes);
  add(job_.batch, kBatch);
  add(job_.forward, kForward);
  add(job_.straggler.delay, kDelay);
  for (std::size_t b = 0; b < buckets; ++b) {
    add(job_.buckets[b].backward, kPerIteration + b);
    backward_mean_.push_back(job_.buckets[b].backward.mean_s());
  }
  for (std::size_t b = 0; b < buckets; ++b) {
    add(job_.buckets[b].step, kPerIteration + buckets + b);
    step_mean_.push_back(job_.buckets[b].step.mean_s());
  }
  slowness_.assign((workers_ + kLanes - 1) / kLanes * kLanes, 0.0);
  for (std::size_t i = 0; i < workers_; ++i)
    slowness_[i] = job_.slowness.empty() ? 1.0 : job_.slowness[i];

  times_ = {.buckets = buckets,
            .forward = forward_.data(),
            .backward = slot(kPerIteration),
            .backward_mean = backward_mean_.data(),
            .step = slot(kPerIteration + buckets),
            .step_mean = step_mean_.data(),
            .pace = pace_.data(),
            .slowness = nullptr};
}

void Durations::add(const Distribution& distribution, std::size_t index) {
  if (distribution.is_constant()) return;
  const QuantileTable* shape = distribution.shape().get();
  if (!runs_.empty() && runs_.back().shape == shape && runs_.back().first_slot + runs_.back().slots == index)
    ++runs_.back().slots;
  else
    runs_.push_back({shape, index, 1});
}

const BlockTimes& Durations::draw(std::int64_t iteration, std::size_t block) {
  const std::uint64_t key = hash_words(seed_, iteration, block);
  for (const Run& run : runs_) {
    const std::size_t count = run.slots * kLanes;
    const std::span<std::uint32_t> words(words_.data() + run.first_slot * kLanes, count);
    fill_words(key + run.first_slot * (kLanes / 2), words);
    run.shape->draw(words, {slot(run.first_slot), count});
  }
  const double* slowness = slowness_.data() + block * kLanes;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    pace_[lane] = slowness[lane] * job_.batch.mean_s() * slot(kBatch)[lane];
    forward_[lane] = job_.forward.mean_s() * slot(kForward)[lane] * pace_[lane];
  }
  if (job_.straggler.probability > 0) {
    Rng rng(hash_words(key, 0x7374726167ULL));
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if (rng.uniform() < job_.straggler.probability)
        forward_[lane] += job_.straggler.delay.mean_s() * slot(kDelay)[lane] * slowness[lane];
    }
  }
  times_.slowness = slowness;
  return times_;
}

}  // namespace kith::sim
