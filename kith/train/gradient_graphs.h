#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "kith/train/data/dataset.h"

namespace kith::train {

// Note [Recorded passes]
// A forward and backward pass of a small model is a few hundred launches, and a GPU waits for the host
// between them. A CUDA graph is the whole pass as one launch: recorded once, then repeated over the same
// memory. So the parameters must keep their addresses (layout staged), batches are copied to where the
// recorded pass reads them, and it leaves its gradients where it left them the last time. What a pass does on
// the host is not repeated: hooks of gradients do not run, so all-reduce has no overlap with backward.

// Forward and backward passes that are recorded when they were run twice with the same shapes, and repeated
// from then on; one recording for each shape and weight. When parameters have moved everything is recorded
// anew. One thread, with a stream of its own current (own_stream). Parameters outlive it.
class GradientGraphs {
 public:
  // The loss of a batch, with a gradient. Does nothing that waits for the device.
  using Forward = std::function<torch::Tensor(const Batch& batch)>;

  // REQUIRES: graphs_obstacle() is empty.
  GradientGraphs(std::vector<torch::Tensor> parameters, Forward forward);
  ~GradientGraphs();
  GradientGraphs(const GradientGraphs&) = delete;
  GradientGraphs& operator=(const GradientGraphs&) = delete;

  // weight * forward(batch), and the gradients of that added to the parameters' as backward() does. What is
  // returned is valid until the next call. Error when the pass cannot be recorded.
  torch::Tensor run(const Batch& batch, double weight);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Empty when passes on this device can be recorded, else why not.
std::string graphs_obstacle(torch::Device device);

// While it lives torch's current stream is one of its own: a recording cannot be made on the default stream.
// Null for a CPU.
std::shared_ptr<void> own_stream(torch::Device device);

}  // namespace kith::train
