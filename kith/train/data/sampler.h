#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kith/base/ids.h"

namespace kith::train {

// Neighbouring samples in the order of an epoch.
struct SampleRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  bool operator==(const SampleRange&) const = default;
};

// Where a sampler stands; the same on all workers that have drawn as many batches.
struct SamplerPosition {
  std::uint64_t digest = 0;  // of data, batch and seed
  std::uint64_t drawn = 0;   // batches
  std::uint64_t epoch = 0;
  std::uint64_t used = 0;          // samples of the epoch that have been dealt, to whomever
  std::vector<SampleRange> again;  // of those, the ones that are dealt once more, before all others
  bool operator==(const SamplerPosition&) const = default;

  // All samples that are still to be dealt.
  std::vector<SampleRange> left(std::uint64_t samples) const;
};

// For a checkpoint. decode_position: InputError when the bytes are no position.
std::vector<std::byte> encode(const SamplerPosition& position);
SamplerPosition decode_position(std::span<const std::byte> bytes);

struct SamplerOptions {
  std::uint64_t samples = 0;
  int workers = 1;
  Rank rank = 0;
  std::uint64_t batch = 1;  // samples per worker and batch
  std::uint64_t seed = 0;
};

// Deals the samples of a data set to the workers: in each epoch every worker gets the same number of batches,
// no sample goes to two of them or comes twice, and the order is new. What does not fill a batch of all
// workers is left out (other samples each epoch). A pure function of the options and the position: nobody
// talks to anybody, and any position can be returned to, also by another number of workers: they share what
// is left of the epoch, and no sample comes twice in it but those that the position says are dealt again
// (kith/train/data/dealings.h). One thread.
//
// Taken together, batch b of all workers holds the same samples however many workers share it, in rank order.
class Sampler {
 public:
  // InputError when the samples do not fill one batch of all workers.
  explicit Sampler(const SamplerOptions& options);

  // Sample numbers of the next batch; valid until the next call.
  std::span<const std::uint64_t> next();

  std::uint64_t batches_per_epoch() const { return batches_per_epoch_; }
  std::uint64_t epoch() const { return position_.epoch; }  // of the next batch
  std::uint64_t drawn() const { return position_.drawn; }  // batches
  std::uint64_t left() const;                              // samples of the epoch, for all workers

  // Where the sampler stands, to be kept in a checkpoint.
  std::vector<std::byte> position() const { return encode(position_); }
  // InputError when the position was taken with other data, batch or seed, or is one that no sampler has.
  void seek(std::span<const std::byte> position);

 private:
  void shuffle(std::uint64_t epoch);
  // What does not fill a batch of all workers is left out.
  void skip_rest();
  // Place in the epoch's order of what lies `ahead` samples from here.
  std::uint64_t place(std::uint64_t ahead) const;
  void advance();

  const SamplerOptions options_;
  const std::uint64_t together_;  // samples of a batch of all workers
  const std::uint64_t batches_per_epoch_;
  SamplerPosition position_;
  std::uint64_t shuffled_epoch_ = 0;
  std::vector<std::uint64_t> order_;  // of shuffled_epoch_; empty before the first batch
};

}  // namespace kith::train
