// Time per iteration on one machine: local only, kith decentralised (exp, aer), kith all-reduce, and
// PyTorch's DDP over Gloo, on the same model and batch, one thread per worker. All workers of all contestants
// live through the run and take turns in short blocks, so that whatever else the machine does falls on
// everybody.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <vector>

#include "bench/common/lap.h"
#include "bench/common/peer_process.h"
#include "bench/common/problem.h"
#include "bench/common/report.h"
#include "bench/iteration/worker.h"
#include "kith/base/clock.h"
#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/kernels/cpu/cpu_kernels.h"

namespace kith::bench {
namespace {

const std::vector<std::string> kModes{"none", "exp", "aer", "allreduce", "ddp"};

class Contest {
 public:
  Contest(int workers, const Problem& problem) {
    const std::vector<std::string> job = problem.words();
    const auto command = [&](std::vector<std::string> words, int rank) {
      words.insert(words.end(), {std::to_string(rank), std::to_string(workers), folder_.path()});
      words.insert(words.end(), job.begin(), job.end());
      return words;
    };
    const SteadyClock clock;
    const Clock::Time before = clock.now();
    for (int rank = 0; rank < workers; ++rank) {
      kith_.emplace_back(command({"/proc/self/exe", "--worker"}, rank), std::vector<std::string>{});
    }
    for (PeerProcess& peer : kith_)
      peer.order("run exp 0 1");
    for (PeerProcess& peer : kith_)
      peer.answer();
    start_up_ = kith::seconds(clock.now() - before);
    for (int rank = 0; rank < workers; ++rank) {
      ddp_.emplace_back(command({KITH_PYTHON, KITH_DDP_SCRIPT}, rank),
                        std::vector<std::string>{"OMP_NUM_THREADS=1", "GLOO_SOCKET_IFNAME=lo"});
    }
    for (PeerProcess& peer : ddp_)
      peer.answer();
  }

  double start_up() const { return start_up_; }

  Lap run(const std::string& mode, int steps) {
    std::vector<PeerProcess>& peers = mode == "ddp" ? ddp_ : kith_;
    for (PeerProcess& peer : peers)
      peer.order(mode == "ddp" ? cat("run 0 ", steps) : cat("run ", mode, " 0 ", steps));
    std::vector<Lap> laps;
    for (PeerProcess& peer : peers)
      laps.push_back(Lap::parse(peer.answer(), mode));
    return together(laps);
  }

  double bytes_per_parameter() {
    for (PeerProcess& peer : kith_)
      peer.order("memory");
    double bytes = 0;
    for (PeerProcess& peer : kith_) {
      std::istringstream words(peer.answer());
      std::string memory;
      words >> memory >> bytes;
    }
    return bytes;
  }

 private:
  TempFolder folder_{"kith-iteration"};
  std::vector<PeerProcess> kith_;
  std::vector<PeerProcess> ddp_;
  double start_up_ = 0;
};

// What the extra bytes of a decentralised step would cost at the speed of memory: one neighbour's model is
// read.
double copy_bytes_per_second() {
  const std::size_t count = 16'000'000;
  std::vector<float> from(count, 1.0f), to(count);
  const auto kernels = kernels::make_cpu_kernels<float>();
  const SteadyClock clock;
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const kernels::Source source{from.data(), DType::f32, 1};
    const Clock::Time before = clock.now();
    kernels->mix({to.data(), nullptr, {}}, {{&source, 1}, 1}, count);
    best = std::max(best, 8.0 * static_cast<double>(count) / seconds(clock.now() - before));
  }
  return best;
}

void measure(int workers, std::int64_t batch, const std::string& ratio_name, const Options& options,
             Report& report) {
  const Problem problem{.batch = batch};
  Contest contest(workers, problem);
  const int blocks = options.quick ? 5 : 9;

  // The same mathematics first: all-reduce and DDP have seen the same data from the same start.
  const int check_steps = 4;
  std::map<std::string, Lap> checked;
  for (const std::string& mode : kModes)
    checked[mode] = contest.run(mode, check_steps);
  if (std::abs(checked["allreduce"].loss / checked["ddp"].loss - 1) > 1e-3) {
    throw Error(cat("after ", check_steps, " steps all-reduce has loss ", checked["allreduce"].loss, ", DDP ",
                    checked["ddp"].loss),
                cat(workers, " workers, batch ", batch));
  }
  // Blocks of about the same length whatever the mode.
  const double pilot = checked["none"].seconds / check_steps;
  const int steps = std::max(3, static_cast<int>((options.quick ? 0.25 : 0.6) / pilot));

  std::map<std::string, std::vector<double>> times, ratios;
  double waited = 0;
  for (int block = 0; block < blocks; ++block) {
    std::map<std::string, double> block_time;
    for (const std::string& mode : kModes) {
      const Lap answer = contest.run(mode, steps);
      block_time[mode] = answer.seconds / steps * 1e3;
      if (mode == "aer") waited += answer.waited / answer.seconds / blocks;
    }
    for (const std::string& mode : kModes) {
      times[mode].push_back(block_time[mode]);
      ratios[mode].push_back(block_time[mode] / block_time["none"]);
    }
  }

  std::printf("\n%d workers, batch %ld each (%s compute ratio), %d blocks of %d iterations\n", workers,
              static_cast<long>(batch), ratio_name.c_str(), blocks, steps);
  std::printf("  mode        ms per iteration [p10, p90]    to local-only [p10, p90]\n");
  for (const std::string& mode : kModes) {
    const Summary time = summarise(times[mode]), ratio = summarise(ratios[mode]);
    std::printf("  %-10s %8.2f [%7.2f, %7.2f]      %6.3f [%.3f, %.3f]\n",
                mode == "none" ? "local-only" : mode.c_str(), time.median, time.low, time.high, ratio.median,
                ratio.low, ratio.high);
    const std::string key = cat(mode, "_", workers, "_", ratio_name);
    report.measure(key, time, "ms");
    report.measure(key + "_to_local", ratio, "");
  }
  const auto parameters = static_cast<double>(problem.parameters());
  const double extra = 4 * parameters / copy_bytes_per_second() * 1e3;
  std::printf(
      "  a neighbour's model, %.1f MB, at copy speed: %.2f ms; share of aer's time spent waiting: %.1f%%\n",
      4 * parameters / 1e6, extra, 100 * waited);
  std::printf("  start-up, %d processes to the end of the first step: %.2f s\n", workers, contest.start_up());

  const double decentralised = std::max(summarise(ratios["exp"]).median, summarise(ratios["aer"]).median);
  std::vector<double> over_ddp, allreduce_over_ddp;
  for (std::size_t b = 0; b < times["ddp"].size(); ++b) {
    over_ddp.push_back(times["ddp"][b] / std::max(times["exp"][b], times["aer"][b]));
    allreduce_over_ddp.push_back(times["ddp"][b] / times["allreduce"][b]);
  }
  const std::string where = cat("_", workers, "_", ratio_name);
  report.at_most("iteration.to_local" + where, decentralised, ratio_name == "high" ? 1.05 : 1.25);
  report.at_least("iteration.over_ddp" + where, summarise(over_ddp).median, 1);
  report.at_least("iteration.allreduce_over_ddp" + where, summarise(allreduce_over_ddp).median, 1);
  if (workers == 4 && ratio_name == "high") {
    report.at_most("iteration.start_up_seconds", contest.start_up(), 2);
    report.at_most("iteration.bytes_per_parameter", contest.bytes_per_parameter(), 24.05);
  }
}

}  // namespace
}  // namespace kith::bench

int main(int argc, char** argv) {
  using namespace kith::bench;
  if (argc == 9 && std::string(argv[1]) == "--worker") {
    return run_worker({std::atoi(argv[2]), std::atoi(argv[3]), argv[4], Problem::from(argv + 5)});
  }
  const Options options =
      parse(argc, argv, "iteration",
            "Time per iteration: local-only, kith decentralised, kith all-reduce, PyTorch DDP over Gloo");
  try {
    Report report("iteration");
    for (const int workers : {2, 4}) {
      // The quick form leaves out the longest run that another one covers.
      if (!options.quick || workers == 4) measure(workers, 256, "high", options, report);
      measure(workers, 16, "low", options, report);
    }
    return report.finish(options);
  } catch (const std::exception& error) {
    std::cerr << "bench/iteration: " << error.what() << "\n";
    return 1;
  }
}
