#pragma once

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/types.h>

#include "kith/base/log.h"
#include "kith/base/rng.h"
#include "kith/train/data_parallel.h"
#include "tests/support/worlds.h"
#include "tests/train/plain_recursion.h"

namespace kith::train::testing {

inline constexpr std::uint64_t kSeed = 20241016;

// What f throws.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}

// Where the tests train: the suite runs once more as train_cuda.* with this set to "cuda".
inline torch::Device test_device() {
  const char* const name = std::getenv("KITH_TEST_DEVICE");
  return torch::Device(name ? name : "cpu");
}

// What a worker's world refers to.
struct TestWorld {
  explicit TestWorld(support::Worker& worker)
      : world{&worker.transport, &worker.store, Members::first(worker.size), &clock, &log, nullptr} {
    torch::set_num_threads(1);
  }
  SteadyClock clock;
  NullLog log;
  engine::WorldParts world;
};

// A world of one worker in the calling thread.
struct Alone {
  Alone() : transport(make()), worker{0, 1, *transport, store}, here(worker) {}
  const engine::WorldParts& world() const { return here.world; }

  comm::MemoryStore store;
  std::unique_ptr<comm::Transport> transport;
  support::Worker worker;
  TestWorld here;

 private:
  std::unique_ptr<comm::Transport> make() {
    comm::TransportOptions options = support::transport_options(0, 1, store);
    options.world = comm::InprocWorld::create(1);
    return comm::make_transport("inproc", options);
  }
};

inline Options options_for(const std::string& algorithm, const std::string& optimizer,
                           const std::string& topology = "complete") {
  Options options;
  options.algorithm = algorithm;
  options.optimizer = optimizer;
  options.topology = topology;
  options.patience = std::chrono::seconds(30);
  options.beta2 = 0.999;
  options.weight_decay = 0;
  options.buffers = BufferPolicy::local;
  options.non_finite = NonFinite::use;
  return options;
}

// The network of plain_recursion.h as a torch module.
struct NetworkImpl : torch::nn::Module {
  explicit NetworkImpl(const plain::Network& shape = {})
      : first(register_module("first", torch::nn::Linear(shape.inputs, shape.hidden))),
        second(register_module("second", torch::nn::Linear(shape.hidden, shape.outputs))) {}
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first, second;
};
TORCH_MODULE(Network);

// The parameters one after the other, as doubles.
inline std::vector<double> flatten(const torch::nn::Module& module) {
  std::vector<double> all;
  for (const torch::Tensor& p : module.parameters()) {
    const torch::Tensor plain = p.detach().cpu().to(torch::kFloat64).contiguous().reshape({-1});
    all.insert(all.end(), plain.data_ptr<double>(), plain.data_ptr<double>() + plain.numel());
  }
  return all;
}

inline void assign(torch::nn::Module& module, const std::vector<double>& values) {
  const torch::NoGradGuard no_grad;
  std::size_t first = 0;
  for (torch::Tensor& p : module.parameters()) {
    const auto count = static_cast<std::size_t>(p.numel());
    const std::vector<double> part(values.begin() + static_cast<std::ptrdiff_t>(first),
                                   values.begin() + static_cast<std::ptrdiff_t>(first + count));
    p.copy_(torch::tensor(part, torch::kFloat64).reshape(p.sizes()));
    first += count;
  }
}

inline std::vector<double> random_values(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<double> values(count);
  for (double& value : values)
    value = rng.normal();
  return values;
}

inline std::vector<double> start_values(const plain::Network& shape = {}) {
  std::vector<double> start = random_values(static_cast<std::size_t>(shape.parameters()), kSeed);
  for (double& value : start)
    value *= 0.5;
  return start;
}

// Worker `rank`'s batch of step t: the same numbers for torch and for the plain loops.
inline plain::Batch batch_of(int rank, std::int64_t t, int samples = 5, const plain::Network& shape = {}) {
  Rng rng(hash_words(kSeed, rank, t));
  plain::Batch batch;
  for (int s = 0; s < samples; ++s) {
    plain::Vector x(static_cast<std::size_t>(shape.inputs)), y(static_cast<std::size_t>(shape.outputs));
    for (double& value : x)
      value = rng.normal();
    for (double& value : y)
      value = rng.normal();
    batch.x.push_back(x);
    batch.y.push_back(y);
  }
  return batch;
}

inline torch::Tensor to_tensor(const plain::Matrix& rows, torch::Dtype type) {
  std::vector<double> all;
  for (const auto& row : rows)
    all.insert(all.end(), row.begin(), row.end());
  return torch::tensor(all, torch::kFloat64)
      .reshape({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].size())})
      .to(type)
      .to(test_device());
}

inline torch::Tensor loss_of(Network& network, const plain::Batch& batch) {
  const torch::Dtype type = network->first->weight.scalar_type();
  return torch::mse_loss(network->forward(to_tensor(batch.x, type)), to_tensor(batch.y, type));
}

inline Network make_network(torch::Dtype type = torch::kFloat64) {
  Network network;
  network->to(type);
  network->to(test_device());
  assign(*network, start_values());
  return network;
}

// zero_grad, forward, backward on the worker's batch of the step that comes.
inline void backward(DecentralizedDataParallel& model, Network& network) {
  model.zero_grad();
  loss_of(network, batch_of(model.world().rank(), model.steps())).backward();
}

inline void train_steps(DecentralizedDataParallel& model, Network& network, int steps) {
  for (int k = 0; k < steps; ++k) {
    backward(model, network);
    model.step();
  }
}

inline std::string to_bytes(const std::vector<double>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}

inline std::vector<double> from_bytes(const std::string& bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Every worker's last model after `steps` steps of the network, workers as threads or processes.
inline std::vector<std::vector<double>> train_world(const std::string& backend, int workers,
                                                    const Options& options, int steps,
                                                    torch::Dtype type = torch::kFloat64) {
  // Before the workers are: torch takes the number over into threads that begin later.
  if (backend == "inproc") torch::set_num_threads(1);
  std::vector<std::vector<double>> models;
  for (const std::string& bytes : support::run_world(backend, workers, [&](support::Worker& worker) {
         TestWorld here(worker);
         Network network = make_network(type);
         DecentralizedDataParallel model(network.ptr(), here.world, options);
         train_steps(model, network, steps);
         return to_bytes(flatten(*network));
       })) {
    models.push_back(from_bytes(bytes));
  }
  return models;
}

inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t k = 0; k < std::min(a.size(), b.size()); ++k) {
    const double d = std::abs(a[k] - b[k]);
    if (!(d <= most)) most = d;  // NaN counts
  }
  return most;
}

}  // namespace kith::train::testing
