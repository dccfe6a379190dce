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
#include "kith/comm/inproc/world.h"
#include "kith/comm/memory_store.h"
#include "kith/comm/registry.h"
#include "kith/telemetry/file_sink.h"

namespace kith::bench {
namespace {

// What this worker's models live in. It meets the others when a mode first needs them; local-only has a world
// of its own, so that nothing but the machine is shared.
class Surroundings {
 public:
  explicit Surroundings(const WorkerOptions& options)
      : options_(options),
        shape_(std::vector<int>(static_cast<std::size_t>(options.hosts), options.workers_per_host)),
        log_(cat("worker ", options.rank), LogLevel::warning),
        store_(options.folder),
        alone_transport_(comm::InprocWorld::create(1)->join(WorkerId{0}, &log_)),
        alone_{alone_transport_.get(), &alone_store_, Members::first(1), &clock_, &log_, nullptr} {
    if (options.trace != "-") {
      trace_ = telemetry::make_chrome_trace_sink(
          {.path = cat(options.trace, "/worker-", options.rank, ".json"), .log = &log_});
    }
  }

  std::unique_ptr<Contestant> make(const std::string& mode) {
    const bool local = mode == "none";
    return std::make_unique<Contestant>(local ? alone_ : together(), options_.rank, options_.problem,
                                        options_for(mode, local ? graph::Shape::single_node(1) : shape_));
  }

  double bytes_from_other_hosts() const {
    if (!transport_) return 0;
    double bytes = 0;
    for (const auto& [peer, ledger] : transport_->ledger()) {
      if (!shape_.same_node(options_.rank, peer.value)) bytes += static_cast<double>(ledger.bytes_read);
    }
    return bytes;
  }

 private:
  const engine::World& together() {
    if (!transport_) {
      const Members members = Members::first(shape_.workers());
      comm::TransportOptions options;
      options.self = WorkerId{options_.rank};
      options.workers = members.workers;
      options.store = &store_;
      options.log = &log_;
      transport_ = comm::make_transport(options_.transport, options);
      together_ = {transport_.get(), &store_, members, &clock_, &log_, trace_.get()};
    }
    return together_;
  }

  const WorkerOptions options_;
  const graph::Shape shape_;
  const SteadyClock clock_;
  StderrLog log_;
  comm::FileStore store_;
  comm::MemoryStore alone_store_;
  std::unique_ptr<comm::Transport> alone_transport_;
  const engine::World alone_;
  std::unique_ptr<telemetry::Sink> trace_;
  std::unique_ptr<comm::Transport> transport_;
  engine::World together_;
};

int serve(const WorkerOptions& options) {
  torch::set_num_threads(1);
  Surroundings surroundings(options);
  std::map<std::string, std::unique_ptr<Contestant>> contestants;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string order, mode;
    int untimed = 0, timed = 0;
    words >> order >> mode >> untimed >> timed;
    auto& contestant = contestants[mode];
    if (!contestant) contestant = surroundings.make(mode);
    const double before = surroundings.bytes_from_other_hosts();
    const Lap lap = contestant->run(untimed, timed);
    std::cout << lap.text() << " " << surroundings.bytes_from_other_hosts() - before << std::endl;
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
