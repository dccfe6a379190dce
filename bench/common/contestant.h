#pragma once

#include <string>

#include <torch/nn.h>

#include "bench/common/lap.h"
#include "bench/common/problem.h"
#include "kith/engine/world_parts.h"
#include "kith/train/data_parallel.h"

namespace kith::bench {

torch::nn::Sequential make_net(const Problem& problem);

// Pairs of workers are nodes for aer, so that it has its two kinds of rounds.
graph::Shape shape_for(const std::string& mode, int workers);

// One way to train the problem with kith. A mode is none (local only), allreduce, or a topology; a wire may
// follow it: "aer-bf16". InputError for a wire that does not exist.
train::Options options_for(const std::string& mode, const graph::Shape& shape);

// A model, its wrapper and worker `rank`'s share of the data. The world outlives it.
class Contestant {
 public:
  Contestant(const engine::WorldParts& world, Rank rank, const Problem& problem,
             const train::Options& options);

  train::DecentralizedDataParallel& model() { return model_; }

  // Everybody meets, steps `untimed` times, then the clock runs for `timed` steps. REQUIRES: timed > 0.
  Lap run(int untimed, int timed);

 private:
  const engine::WorldParts& world_;
  torch::nn::Sequential net_;
  train::DecentralizedDataParallel model_;
  const torch::Tensor x_;
  const torch::Tensor y_;
};

}  // namespace kith::bench
