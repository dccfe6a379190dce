#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "kith/train/config/job.h"
#include "kith/train/data/loader.h"
#include "kith/train/data_parallel.h"
#include "kith/train/grad_scaler.h"
#include "kith/train/run/membership.h"
#include "kith/train/run/welcome.h"

namespace kith::train {

// The batches that a worker of a job draws, whoever comes and goes. One thread. Everything referred to
// outlives it.
class DealtData {
 public:
  // From the beginning, or where a checkpoint or a donor stood. The scaler takes over what these say of it.
  DealtData(const Job& job, const Dataset& dataset, DecentralizedDataParallel& wrapped, GradScaler& scaler);

  Loader& loader() { return *loader_; }
  Membership& membership() { return membership_; }
  const Membership& membership() const { return membership_; }

  // For a checkpoint: the sampler's, then the scaler's where there is one.
  std::vector<std::byte> position() const;

  // What goes into a welcome beside the data and the members, and what a newcomer does with it.
  struct Others {
    std::function<void(Welcome& welcome)> put;
    std::function<void(const Welcome& welcome)> take;
  };
  // Once, before the first step. Workers that come hear of all that from now on; in a newcomer, what its
  // donor told is taken.
  void share(Others others);
  // After every step, the same on every worker: Membership::settle, with a newcomer's part in it.
  std::optional<Membership::Settled> settle();

 private:
  Welcome welcome() const;
  Sampler first_sampler();
  std::unique_ptr<Loader> make_loader(Sampler sampler) const;

  const Job& job_;
  const Dataset& dataset_;
  DecentralizedDataParallel& wrapped_;
  GradScaler& scaler_;
  std::optional<Welcome> donors_;  // of a newcomer
  Others others_;
  std::unique_ptr<Loader> loader_;
  Membership membership_;
};

}  // namespace kith::train
