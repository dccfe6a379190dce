// A 25 MB neighbour exchange plus mix: kith over shared memory against Gloo over loopback TCP, the same
// workers, vectors and schedule, in alternating blocks of one run.

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
#include "kith/gossip/collective.h"
#include "kith/gossip/mixer.h"
#include "kith/kernels/cpu/cpu_kernels.h"

namespace kith::bench {
namespace {

constexpr std::size_t kCount = 25'000'000 / sizeof(float);
constexpr int kBlocks = 5;
constexpr auto kTimeout = std::chrono::seconds(60);

struct Timings {
  std::vector<double> kith;  // milliseconds per round of the slowest worker, one per block
  std::vector<double> gloo;
};

class Worker {
 public:
  Worker(int rank, int size, const std::string& folder)
      : rank_(rank),
        store_(folder + "/kith"),
        members_(Members::first(size)),
        transport_(comm::make_transport("shm", transport_options(rank))),
        kernels_(kernels::make_cpu_kernels<float>()),
        schedule_(graph::make_schedule(schedule_options(size))),
        mixer_(*transport_, *schedule_, members_, *kernels_, clock_, mixer_options()),
        meter_(*transport_, members_, *kernels_, clock_, {"meter", 1, kTimeout}),
        gloo_(rank, size, folder + "/gloo"),
        mine_(kCount),
        theirs_(kCount) {
    Rng rng(hash_words(7, rank));
    for (float& value : mine_)
      value = static_cast<float>(rng.uniform() * 2 - 1);
    std::memcpy(mixer_.values().data(), mine_.data(), kCount * sizeof(float));
    mixer_.start();
    run_kith(1);  // both warm their pages and sockets
    run_gloo(1);
    verify();
  }

  Timings measure(int rounds) {
    Timings timings;
    for (int block = 0; block < kBlocks; ++block) {
      timings.kith.push_back(timed([&] { run_kith(rounds); }) / rounds);
      timings.gloo.push_back(timed([&] { run_gloo(rounds); }) / rounds);
      verify();
    }
    return timings;
  }

 private:
  comm::TransportOptions transport_options(int rank) {
    comm::TransportOptions options;
    options.self = WorkerId{rank};
    options.workers = members_.workers;
    options.store = &store_;
    return options;
  }
  static graph::ScheduleOptions schedule_options(int size) {
    graph::ScheduleOptions options;
    options.topology = "exp";
    options.shape = graph::Shape::single_node(size);
    return options;
  }
  static gossip::MixerOptions mixer_options() {
    gossip::MixerOptions options;
    options.count = kCount;
    return options;
  }

  double slowest(double value) {
    const auto all = meter_.gather(value, clock_.now() + kTimeout);
    return *std::max_element(all.begin(), all.end());
  }

  template <class Body>
  double timed(Body body) {
    slowest(0);  // everybody begins together
    const Clock::Time before = clock_.now();
    body();
    return slowest(seconds(clock_.now() - before) * 1e3);
  }

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
  gossip::Collective<float> meter_;
  GlooExchange gloo_;
  std::vector<float> mine_;
  std::vector<float> theirs_;
  std::int64_t gloo_round_ = 0;
};

void write_timings(const std::string& file, const Timings& timings) {
  std::ofstream out(file);
  for (std::size_t b = 0; b < timings.kith.size(); ++b)
    out << timings.kith[b] << " " << timings.gloo[b] << "\n";
}

Timings read_timings(const std::string& file) {
  Timings timings;
  std::ifstream in(file);
  for (double kith = 0, gloo = 0; in >> kith >> gloo;) {
    timings.kith.push_back(kith);
    timings.gloo.push_back(gloo);
  }
  return timings;
}

// Runs `size` processes; worker 0 leaves the timings in a file. Throws when any of them fails.
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
      Worker worker(rank, size, folder);
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

int main_of(const Options& options) {
  Report report("exchange");
  std::printf("25 MB exchange + mix with a neighbour (topology exp), ms per round of the slowest worker\n");
  std::printf("workers      kith median [p10, p90]      Gloo median [p10, p90]   ratio per block: median\n");
  for (int size : {2, 4, 8}) {
    const Timings timings = run(size, options.quick ? 8 : 20);
    std::vector<double> ratios;
    for (std::size_t b = 0; b < timings.kith.size(); ++b)
      ratios.push_back(timings.gloo[b] / timings.kith[b]);
    const Summary kith = summarise(timings.kith), gloo = summarise(timings.gloo), ratio = summarise(ratios);
    std::printf("%7d   %8.2f [%7.2f, %7.2f]   %8.2f [%7.2f, %7.2f]   %8.2f [%.2f, %.2f]\n", size, kith.median,
                kith.low, kith.high, gloo.median, gloo.low, gloo.high, ratio.median, ratio.low, ratio.high);
    report.measure(cat("kith_", size), kith, "ms");
    report.measure(cat("gloo_", size), gloo, "ms");
    report.measure(cat("ratio_", size), ratio, "");
    report.at_least(cat("exchange.over_gloo_", size, "_workers"), ratio.median, size == 2 ? 7 : 1);
  }
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
