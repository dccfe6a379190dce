// A 25 MB neighbour exchange plus mix: kith over shared memory against Gloo over loopback TCP, the same
// workers, vectors and schedule, in alternating blocks of one run. Then the mean of a group: over shards
// against reading every member.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "bench/common/report.h"
#include "bench/exchange/gloo_exchange.h"
#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/comm/file_store.h"
#include "kith/comm/registry.h"
#include "kith/gossip/mixer.h"
#include "kith/gossip/tree.h"
#include "kith/kernels/cpu/cpu_kernels.h"

namespace kith::bench {
namespace {

constexpr std::size_t kCount = 25'000'000 / sizeof(float);
constexpr int kBlocks = 5;
constexpr auto kTimeout = std::chrono::seconds(60);

// Of two that take turns: milliseconds per round of the slowest worker, one per block.
struct Timings {
  std::vector<double> kith;
  std::vector<double> other;
};

comm::TransportOptions transport_options(int rank, const Members& members, comm::Store& store) {
  comm::TransportOptions options;
  options.self = WorkerId{rank};
  options.workers = members.workers;
  options.store = &store;
  return options;
}

graph::ScheduleOptions schedule_options(const std::string& topology, int size) {
  graph::ScheduleOptions options;
  options.topology = topology;
  options.shape = graph::Shape::single_node(size);
  return options;
}

// Starts everybody together and times the slowest.
class Meter {
 public:
  Meter(comm::Transport& transport, const Members& members, kernels::Kernels<float>& kernels)
      : tree_(transport, members, kernels, clock_, {"meter", 1, kTimeout}) {}

  template <class Body>
  double milliseconds(Body body) {
    slowest(0);
    const Clock::Time before = clock_.now();
    body();
    return slowest(seconds(clock_.now() - before) * 1e3);
  }

 private:
  double slowest(double value) {
    const auto all = tree_.gather(value, clock_.now() + kTimeout);
    return *std::max_element(all.begin(), all.end());
  }

  const SteadyClock clock_;
  gossip::Tree<float> tree_;
};

void fill(std::span<float> values, int rank) {
  Rng rng(hash_words(7, rank));
  for (float& value : values)
    value = static_cast<float>(rng.uniform() * 2 - 1);
}

class Worker {
 public:
  Worker(int rank, int size, const std::string& folder)
      : rank_(rank),
        store_(folder + "/kith"),
        members_(Members::first(size)),
        transport_(comm::make_transport("shm", transport_options(rank, members_, store_))),
        kernels_(kernels::make_cpu_kernels<float>()),
        schedule_(graph::make_schedule(schedule_options("exp", size))),
        mixer_(*transport_, *schedule_, members_, *kernels_, clock_, {.count = kCount}),
        meter_(*transport_, members_, *kernels_),
        gloo_(rank, size, folder + "/gloo"),
        mine_(kCount),
        theirs_(kCount) {
    fill(mine_, rank);
    std::memcpy(mixer_.values().data(), mine_.data(), kCount * sizeof(float));
    mixer_.start();
    run_kith(1);  // both warm their pages and sockets
    run_gloo(1);
    verify();
  }

  Timings measure(int rounds) {
    Timings timings;
    for (int block = 0; block < kBlocks; ++block) {
      timings.kith.push_back(meter_.milliseconds([&] { run_kith(rounds); }) / rounds);
      timings.other.push_back(meter_.milliseconds([&] { run_gloo(rounds); }) / rounds);
      verify();
    }
    return timings;
  }

 private:
  void run_kith(int rounds) {
    for (int i = 0; i < rounds; ++i)
      mixer_.round(clock_.now() + kTimeout);
  }

  void run_gloo(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const graph::WorkerRound round = schedule_->round(rank_, gloo_round_++);
      const int peer = round.group[0] == rank_ ? round.group[1] : round.group[0];
      gloo_.swap(peer, mine_, theirs_);
      const bool first = rank_ < peer;
      const kernels::Source sources[] = {{first ? mine_.data() : theirs_.data(), DType::f32, 1},
                                         {first ? theirs_.data() : mine_.data(), DType::f32, 1}};
      kernels_->mix({mine_.data(), nullptr, {}}, {sources, 0.5}, kCount);
    }
  }

  // Both have done the same rounds on the same vectors in the same order of summation.
  void verify() {
    if (std::memcmp(mixer_.values().data(), mine_.data(), kCount * sizeof(float)) != 0) {
      throw Error(cat("after round ", gloo_round_, " kith and Gloo hold different vectors"),
                  cat("worker ", rank_));
    }
  }

  const SteadyClock clock_;
  const int rank_;
  comm::FileStore store_;
  const Members members_;
  const std::unique_ptr<comm::Transport> transport_;
  const std::unique_ptr<kernels::Kernels<float>> kernels_;
  const std::unique_ptr<graph::Schedule> schedule_;
  gossip::Mixer<float> mixer_;
  Meter meter_;
  GlooExchange gloo_;
  std::vector<float> mine_;
  std::vector<float> theirs_;
  std::int64_t gloo_round_ = 0;
};

// The mean of everybody: each worker sums a shard, against each reading all vectors.
class GroupWorker {
 public:
  GroupWorker(int rank, int size, const std::string& folder)
      : store_(folder + "/kith"),
        members_(Members::first(size)),
        transport_(comm::make_transport("shm", transport_options(rank, members_, store_))),
        kernels_(kernels::make_cpu_kernels<float>()),
        schedule_(graph::make_schedule(schedule_options("complete", size))),
        sums_(*transport_, *schedule_, members_, *kernels_, clock_, {.name = "sums", .count = kCount}),
        reads_(*transport_, *schedule_, members_, *kernels_, clock_,
               {.name = "reads", .count = kCount, .sums_groups = false}),
        meter_(*transport_, members_, *kernels_) {
    for (gossip::Mixer<float>* mixer : {&sums_, &reads_}) {
      fill(mixer->values(), rank);
      mixer->start();
      mixer->round(clock_.now() + kTimeout);
    }
    if (std::memcmp(sums_.values().data(), reads_.values().data(), kCount * sizeof(float)) != 0)
      throw Error("the two means have different bits", cat("worker ", rank));
  }

  Timings measure(int rounds) {
    Timings timings;
    const auto per_round = [&](gossip::Mixer<float>& mixer) {
      return meter_.milliseconds([&] {
        for (int i = 0; i < rounds; ++i)
          mixer.round(clock_.now() + kTimeout);
      }) / rounds;
    };
    for (int block = 0; block < kBlocks; ++block) {
      timings.kith.push_back(per_round(sums_));
      timings.other.push_back(per_round(reads_));
    }
    return timings;
  }

 private:
  const SteadyClock clock_;
  comm::FileStore store_;
  const Members members_;
  const std::unique_ptr<comm::Transport> transport_;
  const std::unique_ptr<kernels::Kernels<float>> kernels_;
  const std::unique_ptr<graph::Schedule> schedule_;
  gossip::Mixer<float> sums_, reads_;
  Meter meter_;
};

void write_timings(const std::string& file, const Timings& timings) {
  std::ofstream out(file);
  for (std::size_t b = 0; b < timings.kith.size(); ++b)
    out << timings.kith[b] << " " << timings.other[b] << "\n";
}

Timings read_timings(const std::string& file) {
  Timings timings;
  std::ifstream in(file);
  for (double kith = 0, other = 0; in >> kith >> other;) {
    timings.kith.push_back(kith);
    timings.other.push_back(other);
  }
  return timings;
}

// Runs `size` processes; worker 0 leaves the timings in a file. Throws when any of them fails.
template <class Contest>
Timings run(int size, int rounds) {
  const TempFolder temporary("kith-exchange");
  const std::string& folder = temporary.path();
  std::filesystem::create_directory(folder + "/gloo");
  std::vector<pid_t> workers;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = ::fork();
    if (pid != 0) {
      workers.push_back(pid);
      continue;
    }
    int code = 0;
    try {
      Contest worker(rank, size, folder);
      const Timings timings = worker.measure(rounds);
      if (rank == 0) write_timings(folder + "/timings", timings);
    } catch (const std::exception& error) {
      std::cerr << "bench/exchange: " << error.what() << "\n";
      code = 1;
    }
    std::_Exit(code);
  }
  bool good = true;
  for (pid_t pid : workers) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    good = good && status == 0;
  }
  const Timings timings = read_timings(folder + "/timings");
  if (!good || timings.kith.size() != kBlocks) throw Error("a worker failed", cat(size, " workers"));
  return timings;
}

// One line of a table, and its measures. Returns how many times as long the other takes.
Summary compare(Report& report, int size, const Timings& timings, const std::string& mine,
                const std::string& other) {
  std::vector<double> ratios;
  for (std::size_t b = 0; b < timings.kith.size(); ++b)
    ratios.push_back(timings.other[b] / timings.kith[b]);
  const Summary first = summarise(timings.kith), second = summarise(timings.other), ratio = summarise(ratios);
  std::printf("%7d   %8.2f [%7.2f, %7.2f]   %8.2f [%7.2f, %7.2f]   %8.2f [%.2f, %.2f]\n", size, first.median,
              first.low, first.high, second.median, second.low, second.high, ratio.median, ratio.low,
              ratio.high);
  report.measure(cat(mine, "_", size), first, "ms");
  report.measure(cat(other, "_", size), second, "ms");
  report.measure(cat(mine == "kith" ? "ratio_" : "group_ratio_", size), ratio, "");
  return ratio;
}

int main_of(const Options& options) {
  Report report("exchange");
  const int rounds = options.quick ? 8 : 20;
  std::printf("25 MB exchange + mix with a neighbour (topology exp), ms per round of the slowest worker\n");
  std::printf("workers      kith median [p10, p90]      Gloo median [p10, p90]   ratio per block: median\n");
  for (int size : {2, 4, 8}) {
    const Summary ratio = compare(report, size, run<Worker>(size, rounds), "kith", "gloo");
    report.at_least(cat("exchange.over_gloo_", size, "_workers"), ratio.median, size == 2 ? 7 : 1);
  }
  std::printf("25 MB mean of everybody (topology complete), ms per round of the slowest worker\n");
  std::printf("workers   over shards median [p10, p90]   every vector median [p10, p90]   ratio\n");
  for (int size : {4, 6, 8})
    compare(report, size, run<GroupWorker>(size, rounds), "shards", "vectors");
  return report.finish(options);
}

}  // namespace
}  // namespace kith::bench

int main(int argc, char** argv) {
  const auto options = kith::bench::parse(
      argc, argv, "exchange", "Neighbour exchange and mix over shared memory, against Gloo in the same run");
  try {
    return kith::bench::main_of(options);
  } catch (const std::exception& error) {
    std::cerr << "bench/exchange: " << error.what() << "\n";
    return 1;
  }
}
