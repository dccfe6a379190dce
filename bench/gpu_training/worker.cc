#include "bench/gpu_training/worker.h"

#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include <torch/utils.h>

#include "bench/common/order.h"
#include "bench/gpu_training/trainee.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/file_store.h"
#include "kith/comm/inproc/world.h"
#include "kith/comm/registry.h"
#include "kith/train/gradient_graphs.h"

namespace kith::bench {
namespace {

int serve(const GpuWorkerOptions& options) {
  torch::set_num_threads(1);
  const std::shared_ptr<void> stream = train::own_stream(torch::Device(options.job.device));
  const SteadyClock clock;
  StderrLog log(cat("worker ", options.rank), LogLevel::warning);
  comm::FileStore store(options.folder);
  comm::TransportOptions transport_options;
  transport_options.self = WorkerId{options.rank};
  transport_options.workers = Members::first(options.workers).workers;
  transport_options.store = &store;
  transport_options.log = &log;
  if (options.workers == 1) transport_options.world = comm::InprocWorld::create(1);
  const auto transport =
      comm::make_transport(options.workers == 1 ? "inproc" : options.job.backend, transport_options);
  const engine::WorldParts world{transport.get(), &store, Members::first(options.workers),
                                 &clock,          &log,   nullptr};

  std::map<std::string, std::unique_ptr<Trainee>> trainees;
  while (const std::optional<Order> order = next_order(std::cin)) {
    auto& trainee = trainees[order->mode];
    if (!trainee) trainee = std::make_unique<Trainee>(world, options.job, order->mode);
    if (order->verb == "distance") {
      std::cout << "distance " << trainee->consensus_distance() << std::endl;
    } else if (order->verb == "parameters") {
      std::cout << "parameters " << trainee->parameters() << std::endl;
    } else {
      std::cout << trainee->run(order->untimed, order->timed).text() << std::endl;
    }
  }
  return 0;
}

}  // namespace

int run_gpu_worker(const GpuWorkerOptions& options) {
  try {
    return serve(options);
  } catch (const std::exception& error) {
    std::cerr << "bench/gpu_training, worker " << options.rank << ": " << error.what() << "\n";
    return 1;
  }
}

}  // namespace kith::bench
