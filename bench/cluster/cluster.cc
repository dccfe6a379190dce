// Time per iteration on four hosts behind links of a given rate (share/hostlab): PyTorch's DDP over Gloo,
// kith's all-reduce, kith decentralised (exp and aer, fp32, bf16 and int8 on the wire), and local only,
// kith's and PyTorch's, as the floor; the same model, batch and data, one thread per worker.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>

#include <unistd.h>

#include "bench/cluster/contest.h"
#include "bench/cluster/flags.h"
#include "bench/cluster/prediction.h"
#include "bench/cluster/table.h"
#include "bench/cluster/worker.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/graph/schedule.h"

namespace kith::bench {
namespace {

constexpr int kUntimed = 2;

// Rounds differ inside a period, so that a block holds whole ones.
int period_of(const std::string& mode, const Setup& setup) {
  const std::string topology = mode.substr(0, mode.find('-'));
  if (topology == "none" || topology == "torch" || topology == "ddp" || topology == "allreduce") return 1;
  return static_cast<int>(graph::make_schedule({.topology = topology, .shape = setup.shape()})->period());
}

class Bench {
 public:
  explicit Bench(const Flags& flags) : flags_(flags) {
    if (flags.csv.empty()) return;
    csv_.open(flags.csv);
    if (!csv_) throw InputError("cannot be written", flags.csv);
    csv_ << "setup,gbit,link_mb_per_s,link_cpu_ms_per_mb,mode,block,steps,ms,loss,waited_ms,step_ms,sent_mb,"
            "ledger_mb,"
            "kernel,idle\n";
  }

  int run() {
    for (const Setup& setup : flags_.setups)
      measure(setup);
    return report_.finish(flags_.common);
  }

 private:
  void measure(const Setup& setup) {
    Contest contest(setup, flags_.contest);
    first_losses_ = check(setup, contest);
    for (const Rate& rate : flags_.rates)
      measure(setup, contest, rate);
    contest.finish();
  }

  // The same mathematics: from one start, all-reduce and DDP see the same data. Returns the losses to fall
  // from.
  std::map<std::string, double> check(const Setup& setup, Contest& contest) {
    constexpr int kSteps = 4;
    std::map<std::string, double> first, later;
    for (const std::string& mode : flags_.modes) {
      first[mode] = contest.run(mode, 0, 1).lap.loss;
      later[mode] = contest.run(mode, 0, kSteps).lap.loss;
    }
    if (later.count("allreduce") && std::abs(later["allreduce"] / later["ddp"] - 1) > 1e-3) {
      throw Error(
          cat("after ", kSteps, " steps all-reduce has loss ", later["allreduce"], ", DDP ", later["ddp"]),
          setup.name());
    }
    return first;
  }

  void measure(const Setup& setup, Contest& contest, const Rate& rate) {
    contest.lab().set_rate(rate.text);
    const LinkMeasurement link =
        contest.lab().measure_link(std::max(1, static_cast<int>(rate.bits_per_second / 8e6 * 1.5)));

    // Blocks of about the same length whatever the mode.
    const double block_seconds = flags_.common.quick ? 0.5 : 1;
    std::map<std::string, int> steps;
    for (const std::string& mode : flags_.modes) {
      const int period = period_of(mode, setup);
      const double ms = contest.run(mode, kUntimed, std::max(4, period)).ms();
      steps[mode] = period * static_cast<int>(std::ceil(std::max(4.0, block_seconds * 1e3 / ms) / period));
    }
    Blocks blocks;
    for (int b = 0; b < flags_.blocks; ++b) {
      for (const std::string& mode : flags_.modes) {
        blocks[mode].push_back(contest.run(mode, kUntimed, steps[mode]));
        write_csv(setup, rate, link, mode, b, blocks[mode].back());
      }
    }
    for (const std::string& mode : flags_.modes) {
      const double loss = blocks[mode].back().lap.loss;
      if (!(std::isfinite(loss) && loss < first_losses_[mode]))
        throw Error(cat(mode, " went from loss ", first_losses_[mode], " to ", loss), setup.name());
    }
    tell(setup, rate, link, blocks);
  }

  void tell(const Setup& setup, const Rate& rate, const LinkMeasurement& link, const Blocks& blocks) {
    std::printf(
        "\n%d hosts x %d workers, %s/s, %s model: %.1f million parameters, batch %ld each, %d blocks\n",
        setup.hosts, setup.workers_per_host, rate.text.c_str(), setup.size.c_str(),
        static_cast<double>(setup.problem.parameters()) / 1e6, static_cast<long>(setup.problem.batch),
        flags_.blocks);
    const std::vector<Row> rows = rows_of(flags_.modes, blocks, link.bytes_per_s);
    print(rows);
    const double predicted_ms = 1e3 * predict_aer(setup, measured(blocks.at("none"), link.bytes_per_s));
    std::printf(
        "  link: %.1f MB/s of payload both ways and %.2f ms of processor time per MB at each end, %.1f ms "
        "for "
        "the model in fp32; aer by the recursion: %.1f ms\n",
        link.bytes_per_s / 1e6, link.cpu_s_per_byte * 1e9,
        4e3 * static_cast<double>(setup.problem.parameters()) / link.bytes_per_s, predicted_ms);
    std::fflush(stdout);
    judge(setup, rate, rows, predicted_ms);
  }

  static Measured measured(const std::vector<Block>& local, double link) {
    std::vector<double> all, steps;
    for (const Block& block : local) {
      all.push_back(block.lap.seconds / block.steps);
      steps.push_back(block.lap.stepped / block.steps);
    }
    return {summarise(all).median, summarise(steps).median, link};
  }

  void judge(const Setup& setup, const Rate& rate, const std::vector<Row>& rows, double predicted_ms) {
    const std::string where = cat(setup.name(), "_", rate.text);
    double slowest = INFINITY;
    for (const Row& row : rows) {
      const std::string key = cat(row.mode, "_", where);
      report_.measure(key, row.ms, "ms");
      report_.measure(key + "_over_ddp", row.over_ddp, "");
      report_.measure(key + "_to_local", row.to_local, "");
      report_.measure(key + "_sent", row.sent, "B");
      report_.measure(key + "_ledger", row.from_ledgers, "B");
      report_.measure(key + "_hidden", row.hidden, "");
      const bool baseline = row.mode == "none" || of_pytorch(row.mode);
      if (row.mode == "allreduce")
        report_.at_least(cat("cluster.allreduce_over_ddp_", where), row.over_ddp, 1);
      if (!baseline && row.mode != "allreduce") slowest = std::min(slowest, row.over_ddp);
      // The set-up that the goals were written for.
      if (where != "small_4x1_1gbit") continue;
      if (row.mode == "aer") report_.at_least("cluster.aer_of_recursion", predicted_ms / row.ms.median, 0.9);
      if (row.mode == "aer-bf16") {
        report_.at_least("cluster.aer_bf16_over_ddp", row.over_ddp, 2.8);
        report_.at_most("cluster.aer_bf16_to_local", row.to_local, 1.05);
        if (row.to_torch > 0) report_.at_most("cluster.aer_bf16_to_torch_alone", row.to_torch, 1.05);
      }
    }
    report_.measure(cat("aer_predicted_", where), predicted_ms, "ms");
    if (std::isfinite(slowest)) report_.at_least(cat("cluster.slowest_over_ddp_", where), slowest, 1);
  }

  void write_csv(const Setup& setup, const Rate& rate, const LinkMeasurement& link, const std::string& mode,
                 int number, const Block& block) {
    if (!csv_.is_open()) return;
    const double ms = 1e3 / block.steps;
    csv_ << setup.name() << ',' << rate.bits_per_second / 1e9 << ',' << link.bytes_per_s / 1e6 << ','
         << link.cpu_s_per_byte * 1e9 << ',' << mode << ',' << number << ',' << block.steps << ','
         << block.ms() << ',' << block.lap.loss << ',' << block.lap.waited * ms << ','
         << block.lap.stepped * ms << ',' << block.sent / 1e6 << ',' << block.from_ledgers / 1e6 << ','
         << block.in_kernel << ',' << block.idle << std::endl;
  }

  const Flags flags_;
  Report report_{"cluster"};
  std::ofstream csv_;
  std::map<std::string, double> first_losses_;
};

}  // namespace
}  // namespace kith::bench

int main(int argc, char** argv) {
  using namespace kith::bench;
  if (argc == 2 + WorkerOptions::kWords && std::string(argv[1]) == "--worker")
    return run_worker(WorkerOptions::from(argv + 2));
  const Flags flags = parse_flags(argc, argv);
  if (::geteuid() != 0) {
    std::cerr << "bench/cluster: needs root, for the network namespaces of share/hostlab: run it with sudo\n";
    return 2;
  }
  try {
    return Bench(flags).run();
  } catch (const kith::InputError& error) {
    std::cerr << "bench/cluster: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "bench/cluster: " << error.what() << "\n";
    return 1;
  }
}
