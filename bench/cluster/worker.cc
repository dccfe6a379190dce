#include "bench/cluster/worker.h"

#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include "bench/common/contestant.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/file_store.h"
#include "kith/comm/registry.h"
#include "kith/telemetry/file_sink.h"

namespace kith::bench {
namespace {

double bytes_from_other_hosts(const comm::Transport& transport, const graph::Shape& shape) {
  double bytes = 0;
  for (const auto& [peer, ledger] : transport.ledger()) {
    if (!shape.same_node(transport.self().value, peer.value)) bytes += static_cast<double>(ledger.bytes_read);
  }
  return bytes;
}

int serve(const WorkerOptions& options) {
  torch::set_num_threads(1);
  const SteadyClock clock;
  StderrLog log(cat("worker ", options.rank), LogLevel::warning);
  const graph::Shape shape(
      std::vector<int>(static_cast<std::size_t>(options.hosts), options.workers_per_host));
  const Members members = Members::first(shape.workers());
  comm::FileStore store(options.folder);
  comm::TransportOptions transport_options;
  transport_options.self = WorkerId{options.rank};
  transport_options.workers = members.workers;
  transport_options.store = &store;
  transport_options.log = &log;
  const auto transport = comm::make_transport(options.transport, transport_options);
  std::unique_ptr<telemetry::Sink> trace;
  if (options.trace != "-") {
    trace = telemetry::make_chrome_trace_sink(
        {.path = cat(options.trace, "/worker-", options.rank, ".json"), .log = &log});
  }
  const engine::World world{transport.get(), &store, members, &clock, &log, trace.get()};

  std::map<std::string, std::unique_ptr<Contestant>> contestants;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string order, mode;
    int untimed = 0, timed = 0;
    words >> order >> mode >> untimed >> timed;
    auto& contestant = contestants[mode];
    if (!contestant) {
      contestant = std::make_unique<Contestant>(world, options.problem, options_for(mode, shape));
    }
    const double before = bytes_from_other_hosts(*transport, shape);
    const Lap lap = contestant->run(untimed, timed);
    std::cout << lap.text() << " " << bytes_from_other_hosts(*transport, shape) - before << std::endl;
  }
  return 0;
}

}  // namespace

std::vector<std::string> WorkerOptions::words() const {
  std::vector<std::string> all{std::to_string(rank),
                               std::to_string(hosts),
                               std::to_string(workers_per_host),
                               folder,
                               transport,
                               trace};
  const std::vector<std::string> job = problem.words();
  all.insert(all.end(), job.begin(), job.end());
  return all;
}

WorkerOptions WorkerOptions::from(const char* const* first) {
  return {std::atoi(first[0]),     std::atoi(first[1]), std::atoi(first[2]), first[3], first[4], first[5],
          Problem::from(first + 6)};
}

int run_worker(const WorkerOptions& options) {
  try {
    return serve(options);
  } catch (const std::exception& error) {
    std::cerr << "bench/cluster, worker " << options.rank << ": " << error.what() << "\n";
    return 1;
  }
}

}  // namespace kith::bench
