#include "kith/engine/background_reduction.h"

#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/telemetry/span.h"

namespace kith::engine {

BackgroundReduction::BackgroundReduction(const WorldParts& world, BackgroundReductionOptions options)
    : world_(world),
      options_(std::move(options)),
      buckets_of_(options_.segments),
      inputs_(options_.segments),
      missing_(options_.buckets.size()),
      threads_(options_.threads) {
  for (std::size_t b = 0; b < options_.buckets.size(); ++b) {
    for (std::size_t segment : options_.buckets[b]->indices())
      buckets_of_[segment].push_back(b);
  }
  reset();
}

void BackgroundReduction::reset() {
  is_ready_.assign(options_.segments, false);
  for (std::size_t b = 0; b < options_.buckets.size(); ++b)
    missing_[b] = options_.buckets[b]->indices().size();
  submitted_ = 0;
  finished_ = false;
  waited_ = {};
}

void BackgroundReduction::ready(std::size_t segment, const SegmentInput& input) {
  if (is_ready_[segment]) return;
  inputs_[segment] = input;
  is_ready_[segment] = true;
  for (std::size_t bucket : buckets_of_[segment])
    --missing_[bucket];
  submit_complete();
}

void BackgroundReduction::submit_complete() {
  for (; submitted_ < options_.buckets.size() && missing_[submitted_] == 0; ++submitted_) {
    Bucket* const bucket = options_.buckets[submitted_];
    threads_.submit([this, bucket, b = submitted_, ready = options_.device->compute().mark()] {
      telemetry::Span span(world_.trace, *world_.clock,
                           {"all-reduce", "engine", world_.self(), cat("communication ", b)});
      span.arg("bucket", b);
      bucket->reduce_gradients(inputs_, ready, world_.clock->now() + options_.patience);
    });
  }
}

void BackgroundReduction::finish(std::span<const SegmentInput> inputs) {
  if (finished_) return;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    ready(i, inputs[i]);
  const Clock::Time begin = world_.clock->now();
  threads_.drain();
  waited_ += world_.clock->now() - begin;
  finished_ = true;
}

void BackgroundReduction::abandon() {
  try {
    threads_.drain();
  } catch (const Error&) {
    // That is why it is abandoned.
  }
}

}  // namespace kith::engine
