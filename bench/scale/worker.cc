#include "bench/scale/worker.h"

#include <iostream>
#include <optional>
#include <vector>

#include "bench/common/order.h"
#include "bench/scale/usage.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/engine/engine.h"
#include "kith/launch/join.h"

namespace kith::bench {
namespace {

launch::Assignment assignment_of(const WorkerOptions& options) {
  launch::Assignment assignment;
  assignment.launcher = "flags";
  assignment.worker = options.worker;
  assignment.workers = options.workers;
  assignment.interface = "lo";
  assignment.secret = "of a benchmark";
  launch::MeetingPoint store;
  if (options.store.find('/') != std::string::npos) {
    store.folder = options.store;
  } else {
    store.address = comm::net::parse_address(options.store, "--store");
  }
  store.origin = "--store";
  assignment.store = store;
  return assignment;
}

int serve(const WorkerOptions& options) {
  StderrLog log(cat("worker ", options.worker), LogLevel::warning);
  launch::JoinOptions join;
  join.backend = options.backend;
  join.log = &log;
  const launch::World world = launch::join(assignment_of(options), join);

  const auto count = static_cast<std::size_t>(options.parameters);
  std::vector<float> model(count, static_cast<float>(options.worker)), gradient(count);
  engine::EngineOptions engine_options;
  engine_options.algorithm = "awc";
  engine_options.optimizer.name = "sgd";
  engine_options.schedule.topology = options.topology;
  engine_options.schedule.shape = graph::Shape::single_node(options.workers);
  const std::vector<engine::Segment> segments{{"p", model.data(), count, DType::f32, count}};
  engine::Engine engine(engine::seen_by_engine(world), engine_options, segments);
  engine.start();
  std::cout << own_usage().text() << std::endl;

  while (const std::optional<Order> order = next_order(std::cin)) {
    const std::vector<engine::SegmentInput> inputs{{gradient.data(), DType::f32, 0.1, 0}};
    for (int i = 0; i < order->timed; ++i) {
      const engine::StepReport report = engine.step(inputs, {});
      if (!report.late.empty() || !report.lost.empty()) throw Error(cat("step ", i, " missed a neighbour"));
    }
    // Everybody began with worker 0's model, of zeros, and no gradient moves it.
    const float* const now = static_cast<const float*>(engine.data(0));
    if (now[0] != 0 || now[count - 1] != 0) throw Error(cat("the model is ", now[0], ", not 0"));
    std::cout << own_usage().text() << std::endl;
  }
  return 0;
}

}  // namespace

int run_worker(const WorkerOptions& options) {
  try {
    return serve(options);
  } catch (const std::exception& error) {
    std::cerr << "bench/scale, worker " << options.worker << ": " << error.what() << "\n";
    return 1;
  }
}

}  // namespace kith::bench
