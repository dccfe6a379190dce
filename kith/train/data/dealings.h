#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kith/base/ids.h"
#include "kith/train/data/sampler.h"

namespace kith::train {

// A worker that has left, and how many of its batches are in somebody's model.
struct GoneWorker {
  WorkerId worker;
  std::uint64_t batches = 0;  // since the run began
};

// Who was dealt what in the epoch that is under way. When members change, what is left of it is dealt among
// those of the new view, and so is what workers that are gone had been dealt and nobody has heard of: their
// models are lost, and with them those samples. It comes first, so that it is late by as few batches as can
// be. A pure function of what it is told: workers that are told the same deal alike. A worker that comes
// draws from the dealing on that has it among its members, and knows the ones before by words(). One thread.
//
//   4 workers of batch 2, order of the epoch a b c d e f g h ...; worker 1 dies, and nobody has its model
//   after step 1:   step 0: ab cd ef gh   step 1: ij kl mn op   then 3 workers: kl qr st, uv wx yz
class Dealings {
 public:
  // Samples of a worker that is gone which nobody has heard of.
  struct Unheard {
    std::uint64_t again = 0;   // are dealt once more
    std::uint64_t unseen = 0;  // are not: they belong to an epoch that is over
  };
  struct Anew {
    SamplerPosition position;      // for the samplers of the new members
    std::vector<Unheard> unheard;  // one for each that is gone
  };

  // The first members, by rank, and where the run begins.
  Dealings(const SamplerOptions& options, std::vector<WorkerId> members, SamplerPosition begin);

  // From `now` on, where everybody stands, `members` draw. `gone`: of the members so far, or before.
  Anew deal(const SamplerPosition& now, std::vector<WorkerId> members, std::span<const GoneWorker> gone);

  // All that it knows, for a worker that comes later; and what that one does with it. Error when the words
  // are no dealings.
  std::vector<std::uint64_t> words() const;
  void take_over(std::span<const std::uint64_t> words);

 private:
  // Members that drew from the same samples, one batch each by rank, again and again.
  struct Dealing {
    std::vector<WorkerId> members;
    std::uint64_t first = 0;           // batch
    std::vector<SampleRange> samples;  // that lay before them
  };

  // Forgets the dealings of epochs that are over.
  void follow(const SamplerPosition& now);
  // Places of what the worker was dealt from batch `from` on, before batch `end`.
  void add_dealt(WorkerId worker, std::uint64_t from, std::uint64_t end, std::vector<SampleRange>& to) const;

  const std::uint64_t samples_;
  const std::uint64_t batch_;
  std::uint64_t epoch_;
  std::vector<Dealing> dealings_;  // of this epoch, the last one goes on
};

}  // namespace kith::train
