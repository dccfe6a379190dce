// Time and memory of building schedules, and of one worker's rounds, as the world grows.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>

#include "bench/common/report.h"
#include "bench/schedule/allocations.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/graph/schedule.h"

namespace kith::bench {
namespace {

using graph::Schedule;

constexpr int kSmall = 10, kMiddle = 1000, kLarge = 100'000;
constexpr int kNodeSize = 5;  // divides every size: `aer` runs over nodes of 5

struct Cost {
  double build_us = 0;
  double build_bytes = 0;
  Summary round_ns;
  double round_bytes = 0;  // most heap alive while one round is computed and held
};

std::unique_ptr<Schedule> make(const std::string& topology, int workers) {
  const std::vector<int> nodes(static_cast<std::size_t>(workers / kNodeSize), kNodeSize);
  return graph::make_schedule({.topology = topology, .shape = graph::Shape(nodes)});
}

// Both ends of every edge at a sample of workers know of it, and weights add up to one. Returns what is
// wrong.
std::string fault_in(const Schedule& schedule, int samples) {
  Rng rng(1);
  for (int sample = 0; sample < samples; ++sample) {
    const auto rank = static_cast<Rank>(rng.below(static_cast<std::uint64_t>(schedule.workers())));
    for (std::int64_t t = 0; t < schedule.period(); ++t) {
      const graph::WorkerRound mine = schedule.round(rank, t);
      double sum = 0;
      for (const graph::Term& term : row_of(mine, rank))
        sum += term.weight;
      if (std::abs(sum - 1) > 1e-12) return cat("rank ", rank, " round ", t, ": weights sum to ", sum);
      for (Rank other : reads_of(mine, rank)) {
        const std::vector<Rank> readers = readers_of(schedule.round(other, t), other);
        if (!std::binary_search(readers.begin(), readers.end(), rank)) {
          return cat("round ", t, ": rank ", rank, " reads ", other, ", which does not know");
        }
      }
    }
  }
  return {};
}

// Every round of a period from the rank's own side; the result keeps the compiler honest.
std::size_t own_period(const Schedule& schedule, Rank rank) {
  std::size_t peers = 0;
  for (std::int64_t t = 0; t < schedule.period(); ++t) {
    const graph::WorkerRound round = schedule.round(rank, t);
    peers += round.group.size() + round.reads.size();
  }
  return peers;
}

Cost measure(const std::string& topology, int workers, int blocks) {
  using Clock = std::chrono::steady_clock;
  const auto nanoseconds = [](Clock::duration d) {
    return std::chrono::duration<double, std::nano>(d).count();
  };
  Cost cost;
  start_counting();
  const auto begin = Clock::now();
  const std::unique_ptr<Schedule> schedule = make(topology, workers);
  cost.build_us = nanoseconds(Clock::now() - begin) / 1000;
  cost.build_bytes = static_cast<double>(stop_counting().peak_bytes);

  std::vector<double> samples;
  Rng rng(2);
  std::size_t peers = 0;
  for (int block = 0; block < blocks; ++block) {
    const auto rank = static_cast<Rank>(rng.below(static_cast<std::uint64_t>(workers)));
    const auto start = Clock::now();
    peers += own_period(*schedule, rank);
    samples.push_back(nanoseconds(Clock::now() - start) / static_cast<double>(schedule->period()));
    start_counting();
    peers += own_period(*schedule, rank);
    cost.round_bytes = std::max(cost.round_bytes, static_cast<double>(stop_counting().peak_bytes));
  }
  if (peers == 0) std::cerr << "nobody has peers\n";
  cost.round_ns = summarise(samples);
  return cost;
}

int run(const Options& options) {
  Report report("schedule");
  const int blocks = options.quick ? 300 : 3000;
  std::printf("topology  workers   period  build us  build bytes  round ns (10%% .. 90%%)   round bytes\n");
  for (const std::string topology : {"base", "exp", "aer"}) {
    std::map<int, Cost> costs;
    for (int workers : {kSmall, kMiddle, kLarge}) {
      const auto schedule = make(topology, workers);
      if (const std::string fault = fault_in(*schedule, options.quick ? 100 : 1000); !fault.empty()) {
        std::cerr << "bench/schedule: " << topology << " of " << workers << " workers is wrong: " << fault
                  << "\n";
        return 1;
      }
      const Cost& cost = costs[workers] = measure(topology, workers, blocks);
      std::printf("%-8s %8d %8lld %9.1f %12.0f %7.0f (%5.0f .. %5.0f) %12.0f\n", topology.c_str(), workers,
                  static_cast<long long>(schedule->period()), cost.build_us, cost.build_bytes,
                  cost.round_ns.median, cost.round_ns.low, cost.round_ns.high, cost.round_bytes);
      const std::string name = cat(topology, ".", workers);
      report.measure(name + ".build", cost.build_us, "us");
      report.measure(name + ".build_memory", cost.build_bytes, "bytes");
      report.measure(name + ".round", cost.round_ns, "ns");
      report.measure(name + ".round_memory", cost.round_bytes, "bytes");
    }
    // Ten thousand times the workers: a round may grow with the logarithm of the world, not with the world.
    const double logarithmic = std::log(kLarge) / std::log(kSmall);
    const Cost &small = costs[kSmall], &large = costs[kLarge];
    report.at_most(topology + "_round_memory_growth", large.round_bytes / small.round_bytes, logarithmic);
    report.at_most(topology + "_round_time_growth", large.round_ns.median / small.round_ns.median,
                   logarithmic);
  }
  return report.finish(options);
}

}  // namespace
}  // namespace kith::bench

int main(int argc, char** argv) {
  const auto options = kith::bench::parse(
      argc, argv, "schedule", "Time and memory to build schedules for 10, 1,000 and 100,000 workers");
  return kith::bench::run(options);
}
