#include "bench/iteration/worker.h"

#include <array>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include <torch/nn.h>

#include "bench/iteration/problem.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/file_store.h"
#include "kith/comm/registry.h"
#include "kith/train/data_parallel.h"

namespace kith::bench {
namespace {

torch::nn::Sequential make_net() {
  torch::nn::Sequential net;
  std::int64_t width = Problem::kInputs;
  const torch::NoGradGuard guard;
  int index = 0;
  const auto add = [&](std::int64_t outputs) {
    torch::nn::Linear layer(width, outputs);
    const auto k = torch::arange(width * outputs, torch::kFloat64);
    layer->weight.copy_((0.03 * torch::sin(0.37 * k + index++)).view({outputs, width}));
    layer->bias.zero_();
    net->push_back(layer);
    width = outputs;
  };
  for (int l = 0; l < Problem::kHiddenLayers; ++l) {
    add(Problem::kHidden);
    net->push_back(torch::nn::ReLU());
  }
  add(Problem::kOutputs);
  return net;
}

train::Options options_for(const std::string& mode, int workers) {
  train::Options options;
  options.engine.name = mode;
  options.engine.optimizer.name = mode == "accum" ? "accum-adamw" : "adamw";
  options.lr = Problem::kLr;
  options.weight_decay = 0.01;
  options.engine.algorithm = mode == "none" || mode == "allreduce" ? mode : "awc";
  options.engine.schedule.topology = mode == "aer" ? "aer" : "exp";
  // Pairs of workers are nodes, so that aer has its two kinds of rounds.
  options.engine.schedule.shape =
      graph::Shape(workers % 2 == 0 && mode == "aer" && workers > 2
                       ? std::vector<int>(static_cast<std::size_t>(workers / 2), 2)
                       : std::vector<int>{workers});
  return options;
}

// A model, its wrapper and its share of the data.
class Contestant {
 public:
  Contestant(const std::string& mode, const engine::World& world, std::int64_t batch)
      : world_(world),
        net_(make_net()),
        model_(net_.ptr(), world, options_for(mode, world.size())),
        x_(torch::cos(0.11 * torch::arange(batch * Problem::kInputs, torch::kFloat64) + 3 * world.rank())
               .to(torch::kFloat32)
               .view({batch, Problem::kInputs})),
        y_(torch::arange(batch, torch::kInt64).remainder(Problem::kOutputs)) {}

  train::DecentralizedDataParallel& model() { return model_; }

  // Seconds, last loss, seconds spent waiting for neighbours.
  std::string run(int steps) {
    model_.barrier();
    const Clock::Time start = world_.clock->now();
    Clock::Duration waited{};
    double loss_value = 0;
    for (int i = 0; i < steps; ++i) {
      model_.zero_grad();
      const torch::Tensor loss = torch::nn::functional::cross_entropy(net_->forward(x_), y_);
      loss.backward();
      waited += model_.step().waited;
      loss_value = loss.item<double>();
    }
    std::array<char, 128> text{};
    std::snprintf(text.data(), text.size(), "done %.9f %.9f %.9f", seconds(world_.clock->now() - start),
                  loss_value, seconds(waited));
    return text.data();
  }

 private:
  const engine::World& world_;
  torch::nn::Sequential net_;
  train::DecentralizedDataParallel model_;
  const torch::Tensor x_;
  const torch::Tensor y_;
};

// Bytes per parameter of accumulated AdamW with the alternating layout: what the engine holds, plus the
// gradient.
std::string memory(const engine::World& world) {
  torch::nn::Sequential net = make_net();
  train::DecentralizedDataParallel model(net.ptr(), world, options_for("accum", world.size()));
  double parameters = 0;
  for (const torch::Tensor& p : net->parameters())
    parameters += static_cast<double>(p.numel());
  return cat("memory ", static_cast<double>(model.engine().memory().total()) / parameters + sizeof(float));
}

int serve(const WorkerOptions& options) {
  torch::set_num_threads(1);
  const SteadyClock clock;
  StderrLog log(cat("worker ", options.rank), LogLevel::warning);
  comm::FileStore store(options.folder);
  comm::TransportOptions transport_options;
  transport_options.self = WorkerId{options.rank};
  transport_options.workers = Members::first(options.workers).workers;
  transport_options.store = &store;
  transport_options.log = &log;
  const auto transport = comm::make_transport("shm", transport_options);
  const engine::World world{transport.get(), &store, Members::first(options.workers), &clock, &log, nullptr};

  std::map<std::string, std::unique_ptr<Contestant>> contestants;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string order, mode;
    int steps = 0;
    words >> order >> mode >> steps;
    if (order == "memory") {
      std::cout << memory(world) << std::endl;
      continue;
    }
    auto& contestant = contestants[mode];
    if (!contestant) contestant = std::make_unique<Contestant>(mode, world, options.batch);
    std::cout << contestant->run(steps) << std::endl;
  }
  return 0;
}

}  // namespace

int run_worker(const WorkerOptions& options) {
  try {
    return serve(options);
  } catch (const std::exception& error) {
    std::cerr << "bench/iteration, worker " << options.rank << ": " << error.what() << "\n";
    return 1;
  }
}

}  // namespace kith::bench
