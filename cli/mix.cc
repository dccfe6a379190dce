#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "cli/local_workers.h"
#include "cli/room.h"
#include "cli/run.h"
#include "kith/base/error.h"
#include "kith/base/log.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/comm/inproc/world.h"
#include "kith/comm/registry.h"
#include "kith/gossip/mixer.h"
#include "kith/gossip/tree.h"
#include "kith/graph/matrix.h"
#include "kith/kernels/cpu/cpu_kernels.h"
#include "kith/launch/join.h"

namespace kith::cli {
namespace {

struct MixOptions {
  int workers = 8;
  std::string nodes;
  std::string topology = "exp";
  std::string size = "25MB";
  std::string backend = "shm";
  std::string wire = "fp32";
  int rounds = 12;
  std::uint64_t seed = 1;
  bool json = false;
};

constexpr auto kTimeout = std::chrono::seconds(60);
constexpr std::size_t kMeterChunk = std::size_t{1} << 19;

struct Line {
  int round = 0;
  double measured = 0;
  double predicted = 0;
  double megabytes = 0;     // read by the busiest worker
  double milliseconds = 0;  // of the slowest worker
  int missed = 0;
};

graph::ScheduleOptions schedule_options(const MixOptions& options) {
  graph::ScheduleOptions schedule;
  schedule.topology = options.topology;
  schedule.seed = options.seed;
  schedule.shape = options.nodes.empty() ? graph::Shape::single_node(options.workers)
                                         : graph::Shape::parse(options.nodes, "--nodes");
  if (schedule.shape.workers() != options.workers) {
    throw InputError(cat("'", options.nodes, "' has ", schedule.shape.workers(), " workers, --workers says ",
                         options.workers),
                     "--nodes", "make them agree");
  }
  return schedule;
}

// Random vectors have independent entries, so the product P of the rounds' matrices shrinks the distance by
// |P - J| / |I - J| in the Frobenius norm, where J is the average.
class Prediction {
 public:
  explicit Prediction(const graph::Schedule& schedule)
      : schedule_(schedule),
        average_(Eigen::MatrixXd::Constant(schedule.workers(), schedule.workers(), 1.0 / schedule.workers())),
        product_(Eigen::MatrixXd::Identity(schedule.workers(), schedule.workers())),
        start_((product_ - average_).norm()) {}

  void advance(std::int64_t t) { product_ = graph::mixing_matrix(schedule_, t) * product_; }

  // Relative to the start. On a directed schedule: of the quotient of vector and push-sum weight.
  double ratio() const {
    const Eigen::VectorXd weights = product_.rowwise().sum();
    const Eigen::MatrixXd estimate = weights.cwiseInverse().asDiagonal() * product_;
    const Eigen::MatrixXd mean = estimate.colwise().mean().replicate(estimate.rows(), 1);
    return start_ > 0 ? (estimate - mean).norm() / start_ : 0;
  }

 private:
  const graph::Schedule& schedule_;
  const Eigen::MatrixXd average_;
  Eigen::MatrixXd product_;
  const double start_;
};

class Meter {
 public:
  Meter(comm::Transport& transport, const Members& members, kernels::Kernels<float>& kernels,
        const Clock& clock)
      : clock_(clock), tree_(transport, members, kernels, clock, {"meter", kMeterChunk, kTimeout}) {}

  // Of x / weight, which is x itself on undirected schedules.
  double distance(std::span<const float> x, double weight) {
    std::vector<float> estimate(x.begin(), x.end());
    if (weight != 1) {
      for (float& value : estimate)
        value = static_cast<float>(value / weight);
    }
    double squared = 0;
    for (std::size_t first = 0; first < x.size(); first += kMeterChunk) {
      const auto piece = std::span(estimate).subspan(first, std::min(kMeterChunk, x.size() - first));
      squared += tree_.squared_consensus_distance(piece, deadline());
    }
    return std::sqrt(squared);
  }

  double largest(double value) {
    double most = value;
    for (double other : tree_.gather(value, deadline()))
      most = std::max(most, other);
    return most;
  }

 private:
  Deadline deadline() const { return clock_.now() + kTimeout; }

  const Clock& clock_;
  gossip::Tree<float> tree_;
};

std::vector<Line> run_worker(comm::Transport& transport, const MixOptions& options) {
  const SteadyClock clock;
  const auto schedule = graph::make_schedule(schedule_options(options));
  const Members members = Members::first(options.workers);
  const auto kernels = kernels::make_cpu_kernels<float>();
  gossip::MixerOptions mixing;
  mixing.count = static_cast<std::size_t>(parse_bytes(options.size, "--size")) / sizeof(float);
  mixing.wire = parse_wire(options.wire, "--wire");
  gossip::Mixer<float> mixer(transport, *schedule, members, *kernels, clock, mixing);
  Meter meter(transport, members, *kernels, clock);
  Prediction prediction(*schedule);

  Rng rng(hash_words(options.seed, transport.self().value));
  for (float& value : mixer.values())
    value = static_cast<float>(rng.uniform() * 2 - 1);
  const double start = meter.distance(mixer.values(), 1);
  std::vector<Line> lines{{0, start, start, 0, 0, 0}};
  mixer.start();
  for (int t = 0; t < options.rounds; ++t) {
    prediction.advance(t);
    meter.largest(0);  // everybody is ready: what follows is the round alone
    const Clock::Time before = clock.now();
    const gossip::RoundReport report = mixer.round(before + kTimeout);
    const double milliseconds = seconds(clock.now() - before) * 1e3;
    Line line;
    line.round = t + 1;
    line.measured = meter.distance(mixer.values(), mixer.weight());
    line.predicted = start * prediction.ratio();
    line.megabytes = meter.largest(static_cast<double>(report.bytes_read)) / 1e6;
    line.milliseconds = meter.largest(milliseconds);
    line.missed =
        static_cast<int>(meter.largest(static_cast<double>(report.late.size() + report.lost.size())));
    lines.push_back(line);
  }
  return lines;
}

void print(const MixOptions& options, const std::vector<Line>& lines) {
  if (options.json) {
    nlohmann::json out{{"workers", options.workers}, {"topology", options.topology},
                       {"backend", options.backend}, {"size", parse_bytes(options.size, "--size")},
                       {"wire", options.wire},       {"seed", options.seed}};
    for (const Line& line : lines) {
      out["rounds"].push_back({{"round", line.round},
                               {"measured", line.measured},
                               {"predicted", line.predicted},
                               {"megabytes", line.megabytes},
                               {"milliseconds", line.milliseconds},
                               {"missed", line.missed}});
    }
    std::cout << out.dump(2) << "\n";
    return;
  }
  std::printf("%d workers (%s), topology %s, %s each, wire %s\n\n", options.workers,
              options.backend == "shm" ? "processes over shared memory" : "threads", options.topology.c_str(),
              options.size.c_str(), options.wire.c_str());
  std::printf("       consensus distance        busiest worker  slowest worker\n");
  std::printf("round   measured    predicted        read [MB]       time [ms]\n");
  for (const Line& line : lines) {
    std::printf("%5d  %9.3e   %9.3e  %15.1f %15.2f%s\n", line.round, line.measured, line.predicted,
                line.megabytes, line.milliseconds, line.missed ? cat("   missed ", line.missed).c_str() : "");
  }
}

std::vector<std::string> arguments_of(const MixOptions& options) {
  std::vector<std::string> arguments{
      "mix",        "--workers", std::to_string(options.workers), "--topology", options.topology, "--size",
      options.size, "--rounds",  std::to_string(options.rounds),  "--backend",  options.backend,  "--wire",
      options.wire, "--seed",    std::to_string(options.seed)};
  if (!options.nodes.empty()) arguments.insert(arguments.end(), {"--nodes", options.nodes});
  if (options.json) arguments.push_back("--json");
  return arguments;
}

void run_process(const launch::Assignment& assignment, const MixOptions& options) {
  if (assignment.workers != options.workers) {
    throw InputError(
        cat(options.workers, " workers, and ", assignment.launcher, " started ", assignment.workers),
        "--workers", "make them agree");
  }
  StderrLog log(cat("worker ", assignment.worker), LogLevel::warning);
  launch::JoinOptions joining{.backend = options.backend, .log = &log};
  const std::vector<std::string> arguments = arguments_of(options);
  for (std::size_t i = 1; i + 1 < arguments.size(); i += 2)
    joining.facts.push_back({arguments[i], arguments[i + 1]});
  const launch::World world = launch::join(assignment, joining);
  const std::vector<Line> lines = run_worker(world.transport(), options);
  if (assignment.worker == 0) print(options, lines);
}

void run_threads(const MixOptions& options) {
  const auto world = comm::InprocWorld::create(options.workers);
  std::vector<Line> first;
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(options.workers));
  std::vector<std::thread> threads;
  for (int worker = 0; worker < options.workers; ++worker) {
    threads.emplace_back([&, worker] {
      try {
        const auto transport = world->join(WorkerId{worker});
        std::vector<Line> lines = run_worker(*transport, options);
        if (worker == 0) first = std::move(lines);
      } catch (...) {
        failures[static_cast<std::size_t>(worker)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  print(options, first);
}

void run_mix(const MixOptions& options) {
  // Everything that can be wrong with the input is found before anybody is started.
  graph::make_schedule(schedule_options(options));
  if (parse_bytes(options.size, "--size") < static_cast<std::int64_t>(sizeof(float))) {
    throw InputError(cat("'", options.size, "'"), "--size", "at least one number of 4 bytes");
  }
  if (parse_wire(options.wire, "--wire") == DType::f64) {
    throw InputError("'fp64'", "--wire", "the vectors are fp32; use fp32, bf16, fp16 or int8");
  }
  const launch::Assignment assignment = launch::discover(launch::read_environment());
  if (assignment.workers > 1) return run_process(assignment, options);
  if (options.backend == "inproc") return run_threads(options);
  if (options.backend != "shm") {
    const std::vector<std::string> known{"shm", "inproc"};
    throw InputError(cat("'", options.backend, "' is not a backend"), "--backend",
                     suggest(options.backend, known));
  }
  // The vector, the two slots of its window, and a copy to measure.
  require_room(options.workers, {.memory_bytes = 4 * parse_bytes(options.size, "--size")}, room_here(),
               "--workers");
  if (const int code = run_local_workers(options.workers, arguments_of(options))) throw ExitCode{code};
}

}  // namespace

void add_mix(CLI::App& app) {
  auto options = std::make_shared<MixOptions>();
  CLI::App* command = app.add_subcommand("mix", "Let workers average random vectors and watch them agree");
  command->add_option("--workers", options->workers, "how many workers")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--nodes", options->nodes, "workers per node, as 4,4,2 or 8x4 (default: one node)");
  command->add_option("--topology", options->topology, "see kith topo")->capture_default_str();
  command->add_option("--size", options->size, "bytes of each worker's vector")->capture_default_str();
  command->add_option("--rounds", options->rounds, "how many rounds")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--backend", options->backend, "shm (processes) or inproc (threads)")
      ->capture_default_str();
  command->add_option("--wire", options->wire, "what travels: fp32, bf16, fp16 or int8")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of the vectors and of topologies that draw")
      ->capture_default_str();
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] {
    outlive_readers();
    run_mix(*options);
  });
}

}  // namespace kith::cli
