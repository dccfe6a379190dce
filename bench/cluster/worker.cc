#include "bench/cluster/worker.h"

#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "bench/common/contestant.h"
#include "bench/common/order.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/launch/join.h"
#include "kith/telemetry/file_sink.h"

namespace kith::bench {
namespace {

// What this worker's models live in. It meets the others when a mode first needs them; local-only has a world
// of its own, so that nothing but the machine is shared.
class Surroundings {
 public:
  explicit Surroundings(const WorkerOptions& options)
      : options_(options),
        assignment_(launch::discover(launch::read_environment())),
        shape_(
            std::vector<int>(static_cast<std::size_t>(options.hosts), assignment_.workers / options.hosts)),
        log_(cat("worker ", assignment_.worker), LogLevel::warning),
        alone_(launch::join(launch::Assignment{}, {.log = &log_})) {
    if (options.trace != "-") {
      trace_ = telemetry::make_chrome_trace_sink(
          {.path = cat(options.trace, "/worker-", assignment_.worker, ".json"), .log = &log_});
    }
    // Everybody is worker 0 of its own world: no place for that in a trace of all.
    alone_world_ = world_in(alone_, nullptr);
  }

  std::unique_ptr<Contestant> make(const std::string& mode) {
    const bool local = mode == "none";
    return std::make_unique<Contestant>(local ? alone_world_ : together(), assignment_.worker,
                                        options_.problem,
                                        options_for(mode, local ? graph::Shape::single_node(1) : shape_));
  }

  double bytes_sent_across() const {
    return together_ ? static_cast<double>(comm::bytes_sent_across(together_->transport().ledger())) : 0;
  }

 private:
  static engine::WorldParts world_in(const launch::World& joined, telemetry::Sink* trace) {
    engine::WorldParts world = engine::seen_by_engine(joined);
    world.trace = trace;
    return world;
  }

  const engine::WorldParts& together() {
    if (!together_) {
      together_.emplace(launch::join(assignment_, {.backend = options_.transport, .log = &log_}));
      together_world_ = world_in(*together_, trace_.get());
    }
    return together_world_;
  }

  const WorkerOptions options_;
  const launch::Assignment assignment_;
  const graph::Shape shape_;
  StderrLog log_;
  std::unique_ptr<telemetry::Sink> trace_;
  launch::World alone_;
  engine::WorldParts alone_world_;
  std::optional<launch::World> together_;
  engine::WorldParts together_world_;
};

int serve(const WorkerOptions& options) {
  torch::set_num_threads(1);
  Surroundings surroundings(options);
  std::map<std::string, std::unique_ptr<Contestant>> contestants;
  while (const std::optional<Order> order = next_order(std::cin)) {
    auto& contestant = contestants[order->mode];
    if (!contestant) contestant = surroundings.make(order->mode);
    const double before = surroundings.bytes_sent_across();
    const Lap lap = contestant->run(order->untimed, order->timed);
    std::cout << lap.text() << " " << surroundings.bytes_sent_across() - before << std::endl;
  }
  return 0;
}

}  // namespace

std::vector<std::string> WorkerOptions::words() const {
  std::vector<std::string> all{transport, trace, std::to_string(hosts)};
  const std::vector<std::string> job = problem.words();
  all.insert(all.end(), job.begin(), job.end());
  return all;
}

WorkerOptions WorkerOptions::from(const char* const* first) {
  return {first[0], first[1], std::atoi(first[2]), Problem::from(first + 3)};
}

int run_worker(const WorkerOptions& options) {
  try {
    return serve(options);
  } catch (const std::exception& error) {
    std::cerr << "bench/cluster, a worker: " << error.what() << "\n";
    return 1;
  }
}

}  // namespace kith::bench
