#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <torch/types.h>

#include "kith/train/config/job.h"
#include "kith/train/data/folders.h"

namespace kith::train {

struct Batch {
  torch::Tensor input;
  torch::Tensor target;  // class numbers, one per prediction; kNoTarget where none is asked for
};
inline constexpr std::int64_t kNoTarget = -100;  // what torch's cross_entropy leaves out by itself
inline constexpr std::int64_t kNoToken = -1;     // in the input of a transformer: padding

// Labelled samples by number, for training and for validation. Immutable, so threads may share one.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::uint64_t train_samples() const = 0;
  virtual std::uint64_t validation_samples() const = 0;
  // REQUIRES: numbers below train_samples().
  virtual Batch train(std::span<const std::uint64_t> samples, std::uint64_t epoch) const = 0;
  virtual Batch validation(std::span<const std::uint64_t> samples) const = 0;

  // What throughput is counted in ("token"), and how many of them a sample is.
  virtual std::string unit() const { return "sample"; }
  virtual std::int64_t units_per_sample() const { return 1; }
};

// InputError when the data is missing or bad.
std::shared_ptr<const Dataset> open_dataset(const Job& job, const DataFolders& folders);

}  // namespace kith::train
