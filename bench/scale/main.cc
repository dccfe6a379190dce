// What one worker of many costs: start-up, memory, descriptors, threads, and a step, with a tiny model and
// the topology `exp`. Goals: per-worker memory at 256 at most 1.2 times that at 16 without what the log n
// neighbours take; start-up at most 1.5 times the processor seconds per worker at 256 that it takes at 16.
// What a neighbour takes is seen between `exp` and `ring` among 16.
//
// With --counted the same start among threads, whose messages are counted instead: how long it would take on
// a network, had computing taken no time.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <vector>

#include "bench/common/peer_process.h"
#include "bench/common/report.h"
#include "bench/scale/counted.h"
#include "bench/scale/usage.h"
#include "bench/scale/worker.h"
#include "kith/base/clock.h"
#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/comm/net/connection.h"

namespace kith::bench {
namespace {

constexpr auto kPatience = std::chrono::minutes(5);

struct Flags {
  std::vector<int> workers{16, 64, 256};
  std::vector<std::string> backends{"shm", "ucx"};
  std::vector<int> counted;
  int steps = 50;
  WorkerOptions worker{.backend = {}, .store = {}, .topology = "exp", .parameters = 1000};
};

// The mean over the workers, but the most descriptors and threads that one of them holds.
struct Outcome {
  Usage started, stepped;
  double start_s = 0, step_s = 0;  // of the slowest
};

int free_port() {
  const comm::net::Listener listener(comm::net::ListenOptions{.at = {"127.0.0.1", 0}, .interface = "lo"});
  return listener.bound().port;
}

Usage mean_of(std::vector<PeerProcess>& team, Deadline deadline) {
  Usage mean;
  const auto n = static_cast<double>(team.size());
  for (PeerProcess& worker : team) {
    const Usage one = Usage::parse(worker.answer(deadline));
    mean.processor_s += one.processor_s / n;
    mean.memory_kb += one.memory_kb / n;
    mean.descriptors = std::max(mean.descriptors, one.descriptors);
    mean.threads = std::max(mean.threads, one.threads);
  }
  return mean;
}

Outcome run(const Flags& flags, const std::string& backend, const std::string& topology, int workers) {
  const TempFolder folder("kith-scale");
  const bool meets_in_folder = backend == "shm";
  const std::string store = meets_in_folder ? folder.path() : cat("127.0.0.1:", free_port());
  const SteadyClock clock;
  const Clock::Time begin = clock.now();
  std::vector<PeerProcess> team;
  for (int worker = 0; worker < workers; ++worker) {
    team.emplace_back(std::vector<std::string>{"/proc/self/exe", "--as-worker", std::to_string(worker),
                                               "--workers", std::to_string(workers), "--backends", backend,
                                               "--store", store, "--topology", topology, "--parameters",
                                               std::to_string(flags.worker.parameters)},
                      std::vector<std::string>{"OMP_NUM_THREADS=1"});
  }
  Outcome outcome;
  outcome.started = mean_of(team, begin + kPatience);
  const Clock::Time started = clock.now();
  outcome.start_s = seconds(started - begin);
  for (PeerProcess& worker : team)
    worker.order(cat("step model 0 ", flags.steps));
  outcome.stepped = mean_of(team, started + kPatience);
  outcome.step_s = seconds(clock.now() - started) / flags.steps;
  for (PeerProcess& worker : team)
    worker.dismiss();
  return outcome;
}

int main_of(const Options& options, const Flags& flags) {
  Report report("scale");
  std::printf("topology %s, %d parameters; per worker: the mean, of descriptors and threads the most\n",
              flags.worker.topology.c_str(), flags.worker.parameters);
  std::printf("%-7s %8s %8s %8s %10s %6s %8s %10s %10s\n", "backend", "workers", "start s", "cpu s",
              "memory kB", "files", "threads", "ms / step", "cpu ms");
  for (const std::string& backend : flags.backends) {
    std::map<int, Outcome> outcomes;
    for (const int workers : flags.workers) {
      const Outcome& one = outcomes[workers] = run(flags, backend, flags.worker.topology, workers);
      const double step_cpu_s = (one.stepped.processor_s - one.started.processor_s) / flags.steps;
      std::printf("%-7s %8d %8.2f %8.3f %10.0f %6d %8d %10.2f %10.3f\n", backend.c_str(), workers,
                  one.start_s, one.started.processor_s, one.stepped.memory_kb, one.stepped.descriptors,
                  one.stepped.threads, one.step_s * 1e3, step_cpu_s * 1e3);
      std::fflush(stdout);
      const std::string name = cat(backend, " ", workers, " workers ");
      report.measure(name + "start", one.start_s, "s");
      report.measure(name + "start-cpu", one.started.processor_s, "s");
      report.measure(name + "memory", one.stepped.memory_kb, "kB");
      report.measure(name + "descriptors", one.stepped.descriptors, "");
      report.measure(name + "threads", one.stepped.threads, "");
      report.measure(name + "step-cpu", step_cpu_s, "s");
    }
    if (flags.worker.topology != "exp" || !outcomes.contains(16) || !outcomes.contains(256)) continue;
    // Neighbours in each direction: `ring` has 1, `exp` 4 among 16 and 8 among 256.
    const auto memory = [&](int workers) { return outcomes.at(workers).stepped.memory_kb; };
    const double ring = run(flags, backend, "ring", 16).stepped.memory_kb;
    const double each = std::max(0.0, (memory(16) - ring) / 3);
    std::printf("%-7s a neighbour takes %.0f kB\n", backend.c_str(), each);
    report.at_most(cat(backend, "-memory-256-over-16"), (memory(256) - 8 * each) / (memory(16) - 4 * each),
                   1.2);
    report.at_most(cat(backend, "-start-cpu-256-over-16"),
                   outcomes.at(256).started.processor_s / outcomes.at(16).started.processor_s, 1.5);
    report.tell();
  }
  return report.finish(options);
}

int count_starts(const Options& options, const Flags& flags) {
  Report report("scale");
  const Wire wire;
  const double model_s = flags.worker.parameters * static_cast<double>(sizeof(float)) / wire.bytes_per_s;
  std::printf("topology %s, %d parameters, %.0f us and %.2f GB/s; per worker\n",
              flags.worker.topology.c_str(), flags.worker.parameters, wire.latency_s * 1e6,
              wire.bytes_per_s / 1e9);
  std::printf("%8s %8s %12s %10s %14s %12s %14s\n", "workers", "windows", "most peers", "messages",
              "most kB sent", "start ms", "models' times");
  for (const int workers : flags.counted) {
    const CountedStart start = count_start(workers, flags.worker.topology, flags.worker.parameters, wire);
    std::printf("%8d %8.1f %12d %10.1f %14.1f %12.3f %14.2f\n", workers, start.windows, start.most_peers,
                start.messages, static_cast<double>(start.most_bytes) / 1e3, start.time_s * 1e3,
                start.time_s / model_s);
    std::fflush(stdout);
    const std::string name = cat("counted ", workers, " workers ");
    report.measure(name + "peers", start.most_peers, "");
    report.measure(name + "messages", start.messages, "");
    report.measure(name + "sent", static_cast<double>(start.most_bytes), "B");
    report.measure(name + "start", start.time_s, "s");
  }
  return report.finish(options);
}

}  // namespace
}  // namespace kith::bench

int main(int argc, char** argv) {
  kith::bench::Flags flags;
  int as_worker = -1;
  const auto options =
      kith::bench::parse(argc, argv, "scale", "What one worker of many costs.", [&](CLI::App& app) {
        app.add_option("--workers", flags.workers, "How many, one after the other")->delimiter(',');
        app.add_option("--backends", flags.backends, "shm, ucx, routed")->delimiter(',');
        app.add_option("--counted", flags.counted, "Count the start of so many, as threads")->delimiter(',');
        app.add_option("--steps", flags.steps, "Steps that are timed");
        app.add_option("--topology", flags.worker.topology, "Who mixes with whom");
        app.add_option("--parameters", flags.worker.parameters, "Of the model");
        app.add_option("--as-worker", as_worker, "Be this worker (the benchmark starts its own)");
        app.add_option("--store", flags.worker.store, "Where the workers meet");
      });
  try {
    if (options.quick) flags.workers = {16, 64};
    if (!flags.counted.empty()) return kith::bench::count_starts(options, flags);
    if (as_worker < 0) return kith::bench::main_of(options, flags);
    flags.worker.worker = as_worker;
    flags.worker.workers = flags.workers.at(0);
    flags.worker.backend = flags.backends.at(0);
    return kith::bench::run_worker(flags.worker);
  } catch (const std::exception& error) {
    std::cerr << "bench/scale: " << error.what() << "\n";
    return 1;
  }
}
