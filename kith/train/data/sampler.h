#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kith/base/ids.h"

namespace kith::train {

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
// is left of the epoch, and no sample comes twice in it. One thread.
//
// Taken together, batch b of all workers holds the same samples however many workers share it, in rank order.
class Sampler {
 public:
  // InputError when the samples do not fill one batch of all workers.
  explicit Sampler(const SamplerOptions& options);

  // Sample numbers of the next batch; valid until the next call.
  std::span<const std::uint64_t> next();

  std::uint64_t batches_per_epoch() const { return batches_per_epoch_; }
  std::uint64_t epoch() const { return epoch_; }                   // of the next batch
  std::uint64_t drawn() const { return drawn_; }                   // batches
  std::uint64_t left() const { return options_.samples - used_; }  // samples of the epoch, for all workers

  // Where the sampler stands, to be kept in a checkpoint.
  std::vector<std::byte> position() const;
  // InputError when the position was taken with other data, batch or seed, or is one that no sampler has.
  void seek(std::span<const std::byte> position);

 private:
  void shuffle(std::uint64_t epoch);
  // What does not fill a batch of all workers is left out.
  void skip_rest();

  const SamplerOptions options_;
  const std::uint64_t together_;  // samples of a batch of all workers
  const std::uint64_t batches_per_epoch_;
  std::uint64_t drawn_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t used_ = 0;  // samples of the epoch that have been dealt, to whomever
  std::uint64_t shuffled_epoch_ = 0;
  std::vector<std::uint64_t> order_;  // of shuffled_epoch_; empty before the first batch
};

}  // namespace kith::train
