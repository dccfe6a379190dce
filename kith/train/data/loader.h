#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "kith/train/data/dataset.h"
#include "kith/train/data/sampler.h"

namespace kith::train {

struct LoaderOptions {
  torch::Device device = torch::kCPU;
  int ahead = 2;  // batches made before they are asked for
};

// Makes the batches that a sampler deals while the model computes: a thread of its own fills host memory
// (pinned where the batches go to a GPU), and next() puts the copy to the device on torch's current stream
// without waiting for it. One thread uses it.
class Loader {
 public:
  // Begins where the sampler stands. The data set outlives the loader.
  Loader(const Dataset& dataset, Sampler sampler, const LoaderOptions& options = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next training batch, on the device. Rethrows what making it threw.
  Batch next();

  std::uint64_t epoch() const { return epoch_; }  // of the next batch
  // Where the sampler would stand had it dealt just the batches taken so far (Sampler::seek).
  const std::vector<std::byte>& position() const { return position_; }

 private:
  struct Made {
    Batch batch;
    std::uint64_t epoch_after = 0;
    std::vector<std::byte> position_after;
    std::exception_ptr failure;
  };
  void run();
  Made make();

  const Dataset& dataset_;
  const LoaderOptions options_;
  std::uint64_t epoch_;
  std::vector<std::byte> position_;
  Sampler sampler_;  // the thread's

  std::mutex mutex_;
  // Guarded by mutex_:
  std::condition_variable changed_;
  std::deque<Made> made_;
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace kith::train
