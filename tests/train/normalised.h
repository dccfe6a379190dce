#pragma once

// A small network with parameters and buffers of several kinds, for tests of checkpoints.

#include <optional>
#include <string>
#include <vector>

#include "kith/base/error.h"
#include "tests/train/support.h"

namespace kith::train::testing {

// A network with running statistics.
struct NormalisedImpl : torch::nn::Module {
  NormalisedImpl()
      : first(register_module("first", torch::nn::Linear(3, 4))),
        norm(register_module("norm", torch::nn::BatchNorm1d(4))),
        second(register_module("second", torch::nn::Linear(4, 2))) {
    assign(*this, random_values(3 * 4 + 4 + 4 + 4 + 4 * 2 + 2, kSeed));
    to(test_device());
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(norm(first(x)))); }
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear second;
};
TORCH_MODULE(Normalised);

inline void train_normalised(DecentralizedDataParallel& model, Normalised& network, int steps,
                             double noise = 0) {
  for (int k = 0; k < steps; ++k) {
    model.zero_grad();
    model.set_lr(1e-2 / static_cast<double>(1 + model.steps()));
    const plain::Batch batch = batch_of(model.world().rank(), model.steps());
    torch::Tensor x = to_tensor(batch.x, torch::kFloat32);
    if (noise != 0) x = x + noise * torch::randn_like(x);
    torch::mse_loss(network->forward(x), to_tensor(batch.y, torch::kFloat32)).backward();
    model.step();
  }
}

inline std::string everything(const torch::nn::Module& module) {
  std::vector<double> all = flatten(module);
  for (const torch::Tensor& b : module.buffers()) {
    const torch::Tensor plain = b.cpu().to(torch::kFloat64).contiguous().reshape({-1});
    all.insert(all.end(), plain.data_ptr<double>(), plain.data_ptr<double>() + plain.numel());
  }
  return to_bytes(all);
}

struct Variant {
  std::string algorithm, optimizer, topology;
  engine::Layout layout = engine::Layout::automatic;
  std::optional<DType> wire = {};
  int mix_every = 1;
  std::string codec = {};
};

inline Options options_of(const Variant& v) {
  Options options = options_for(v.algorithm, v.optimizer, v.topology);
  options.layout = v.layout;
  options.wire = v.wire;
  options.mix_every = v.mix_every;
  options.codec = v.codec;
  options.bucket_bytes = 64;
  options.momentum = v.optimizer == "sgd" ? 0.9 : 0;
  return options;
}

}  // namespace kith::train::testing
