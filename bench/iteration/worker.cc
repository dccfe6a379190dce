#include "bench/iteration/worker.h"

#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "bench/common/contestant.h"
#include "bench/common/order.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/file_store.h"
#include "kith/comm/registry.h"

namespace kith::bench {
namespace {

// Bytes per parameter of accumulated AdamW with the alternating layout: what the engine holds, plus the
// gradient.
std::string memory(const engine::WorldParts& world, const Problem& problem) {
  torch::nn::Sequential net = make_net(problem);
  train::Options options = options_for("exp", shape_for("exp", world.size()));
  options.name = "memory";
  options.optimizer = "accum-adamw";
  train::DecentralizedDataParallel model(net.ptr(), world, options);
  return cat("memory ", static_cast<double>(model.engine().memory().total()) /
                                static_cast<double>(problem.parameters()) +
                            sizeof(float));
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
  const engine::WorldParts world{transport.get(), &store, Members::first(options.workers),
                                 &clock,          &log,   nullptr};

  std::map<std::string, std::unique_ptr<Contestant>> contestants;
  while (const std::optional<Order> order = next_order(std::cin)) {
    if (order->verb == "memory") {
      std::cout << memory(world, options.problem) << std::endl;
      continue;
    }
    auto& contestant = contestants[order->mode];
    if (!contestant) {
      contestant =
          std::make_unique<Contestant>(world, options.rank, options.problem,
                                       options_for(order->mode, shape_for(order->mode, options.workers)));
    }
    std::cout << contestant->run(order->untimed, order->timed).text() << std::endl;
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
