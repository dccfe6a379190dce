// The runtime model against what bench/cluster measured on hosts of one machine. A set-up (a model, and a
// number of workers per host) is predicted from its local-only iterations, its link, and two prices that are
// taken from the other set-ups, never from the one that is predicted: what a message costs the processors
// (what plain TCP costs over that link, times a factor for each way of exchanging), and what a pass over
// memory costs the thread that computes.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <numeric>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "bench/common/report.h"
#include "bench/predict/measured.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/graph/schedule.h"
#include "kith/graph/stagger.h"
#include "kith/sim/shared_cores.h"

namespace kith::bench {
namespace {

struct Flags {
  Options common;
  std::string csv = "docs/results/cluster.csv";
  int cores = static_cast<int>(std::thread::hardware_concurrency());
};

const std::vector<std::string> kModes{"ddp", "allreduce", "exp", "exp-bf16", "aer", "aer-bf16"};
constexpr double kMiB = 1 << 20;

// Layers joined in order until a bucket is full; PyTorch's first one is small. Between nodes the engine
// splits layers, for even buckets.
std::vector<double> cut(const std::vector<double>& layers, const std::string& mode,
                        const graph::Schedule* schedule) {
  const double all = std::accumulate(layers.begin(), layers.end(), 0.0);
  const std::int64_t turns = schedule ? graph::turns_of(*schedule) : 1;
  const double full = graph::staggered_bucket_bytes(mode == "allreduce" ? 6 : turns, all, 25 * kMiB);
  if (schedule && graph::crosses_nodes(*schedule))
    return std::vector<double>(static_cast<std::size_t>(std::ceil(all / full)), all / std::ceil(all / full));
  std::vector<double> buckets{0};
  for (double layer : layers) {
    const bool first_of_ddp = mode == "ddp" && buckets.size() == 1;
    if (buckets.back() >= (first_of_ddp ? kMiB : full)) buckets.push_back(0);
    buckets.back() += layer;
  }
  return buckets;
}

sim::Scenario scenario_of(const Configuration& measured, const std::string& mode, int cores) {
  using sim::Distribution;
  sim::Scenario scenario;
  scenario.placement =
      graph::Shape(std::vector<int>(static_cast<std::size_t>(measured.hosts()), measured.workers_per_host()));
  // Inside a host nothing travels: models are read where they lie, and that is part of the step.
  scenario.network = {{0, 1e12}, {100e-6, measured.link_bytes_per_s}, measured.link_bytes_per_s};
  const std::string topology = mode.substr(0, mode.find('-'));
  if (topology != "ddp" && topology != "allreduce")
    scenario.schedule = graph::make_schedule({.topology = topology, .shape = scenario.placement});
  if (mode.ends_with("-bf16")) scenario.wire = DType::bf16;
  // PyTorch's ring goes through every worker, kith's hops through every host.
  scenario.collective = mode == "ddp" ? sim::Collective::ring : sim::Collective::three_hop;

  // Local-only iterations of all workers at once, as processor time of one.
  const double share = std::min(1.0, static_cast<double>(cores) / scenario.placement.workers());
  const double local = measured.iteration_s.at("none") * share;
  const double compute = local - measured.local_step_s * share;
  // PyTorch's optimizer is another: what it takes longer is its step.
  const bool pytorch = mode == "ddp" && measured.iteration_s.contains("torch");
  const double step = (pytorch ? measured.iteration_s.at("torch") * share : local) - compute;
  const std::vector<double> layers = measured.layer_bytes();
  const double bytes = std::accumulate(layers.begin(), layers.end(), 0.0);
  const std::vector<double> buckets = cut(layers, mode, scenario.schedule.get());
  scenario.job.forward = Distribution::constant(compute / 3);
  for (double bucket : buckets) {
    scenario.job.buckets.push_back({bucket, Distribution::constant(compute * 2 / 3 * bucket / bytes),
                                    Distribution::constant(step * bucket / bytes)});
  }
  if (scenario.schedule) scenario.ahead = graph::stagger(graph::turns_of(*scenario.schedule), buckets);
  scenario.iterations = 60;
  scenario.warm_up = 12;
  return scenario;
}

// Ways of exchanging that spend the same work on a byte. `aer` over hosts of several workers averages in
// three hops, which all pass over memory; the others exchange in pairs.
std::string family_of(const std::string& mode, const Configuration& configuration) {
  if (mode == "ddp" || mode == "allreduce") return mode;
  const bool hops = mode.starts_with("aer") && configuration.workers_per_host() > 1;
  return cat(hops ? "three hops, " : "pairs, ", mode.ends_with("-bf16") ? "bf16" : "fp32");
}

// Passes over a bucket's memory that a mixing step makes beyond a local one. A pair reads the neighbour's
// bucket, and copies its own into the window (even buckets are staged): it reads and writes it once more.
// Three hops read the members' shards, write their sum, read the other host's, write the total and read it,
// besides the copy. A 16-bit wire halves all but the reading of one's own. All-reduce copies gradients to a
// buffer, adds them up there and reads the means.
double passes_of(const std::string& mode, const Configuration& configuration) {
  if (mode == "ddp" || mode == "allreduce") return 4;
  const double full = family_of(mode, configuration).starts_with("three hops") ? 7 : 3;
  return mode.ends_with("-bf16") ? (full + 1) / 2 : full;
}

class Judge {
 public:
  explicit Judge(const Flags& flags) : flags_(flags), configurations_(read_measured(flags.csv)) {
    for (const Configuration& configuration : configurations_) {
      for (const std::string& mode : kModes) {
        if (configuration.iteration_s.contains(mode)) families_.insert(family_of(mode, configuration));
      }
    }
  }

  int run() {
    std::printf("%-12s %8s  %-10s %12s %12s %8s\n", "set-up", "Gbit/s", "mode", "measured ms", "predicted",
                "error");
    for (const Configuration& configuration : configurations_)
      judge(configuration);
    std::printf("\nprocessor time of a message over that of plain TCP, from the other set-ups:\n");
    for (const auto& [key, factor] : factors_)
      std::printf("%-12s %-20s %5.2f\n", key.first.c_str(), key.second.c_str(), factor);
    std::printf("\na pass over memory, from the other set-ups:\n");
    for (const auto& [setup, pass] : passes_)
      std::printf("%-12s %5.2f ns a byte\n", setup.c_str(), 1e9 * pass * kPassStep);
    std::sort(errors_.begin(), errors_.end());
    const double median = errors_[errors_.size() / 2];
    std::printf(
        "\n%zu predictions: median error %.1f%%, worst %.1f%%; the planner's choice loses at most %.1f%%\n",
        errors_.size(), 100 * median, 100 * errors_.back(), 100 * worst_choice_);
    report_.at_most("predict.median_error", median, 0.10);
    report_.at_most("predict.worst_error", errors_.back(), 0.25);
    report_.at_most("predict.choice_over_best", worst_choice_, 0.05);
    return report_.finish(flags_.common);
  }

 private:
  double predict(const Configuration& configuration, const std::string& mode, double factor,
                 double pass_s_per_byte) const {
    const sim::SharedCores shared{flags_.cores, factor * tcp_cost_at(configuration.gbit),
                                  pass_s_per_byte * passes_of(mode, configuration)};
    return sim::simulate_shared(scenario_of(configuration, mode, flags_.cores), shared).iteration_s;
  }

  // Processor time of a byte of plain TCP, at each end. The link is the same for all set-ups.
  double tcp_cost_at(double gbit) const {
    std::vector<double> costs;
    for (const Configuration& configuration : configurations_)
      if (configuration.gbit == gbit) costs.push_back(configuration.cpu_s_per_byte);
    return summarise(costs).median;
  }

  // What explains the other set-ups best, for a price of a pass; 1 without others.
  struct Fit {
    double factor = 1;
    double error = 0;  // sum over what it was fitted to
  };
  Fit fit(const Configuration& predicted, const std::string& family, int pass) {
    const auto [at, fresh] = fits_.try_emplace({predicted.setup, family, pass});
    if (!fresh) return at->second;
    double least = INFINITY;
    for (int step = 0; step <= kFactorSteps; ++step) {
      double sum = 0;
      for (const Configuration& other : configurations_) {
        if (other.setup == predicted.setup) continue;
        for (const auto& [mode, measured] : other.iteration_s) {
          if (mode != "none" && mode != "torch" && family_of(mode, other) == family)
            sum += std::abs(std::log(try_prices(other, mode, step, pass) / measured));
        }
      }
      if (sum > 0 && sum < least) {
        least = sum;
        at->second = {step * kFactorStep, sum};
      }
    }
    return at->second;
  }

  // One price of a pass for all ways: it is the machine's.
  int pass_of(const Configuration& predicted) {
    const auto [at, fresh] = passes_.try_emplace(predicted.setup, 0);
    if (!fresh) return at->second;
    double least = INFINITY;
    for (int pass = 0; pass <= kPassSteps; ++pass) {
      double sum = 0;
      for (const std::string& family : families_)
        sum += fit(predicted, family, pass).error;
      if (sum < least) {
        least = sum;
        at->second = pass;
      }
    }
    return at->second;
  }

  double try_prices(const Configuration& configuration, const std::string& mode, int step, int pass) {
    const auto [at, fresh] = tried_.try_emplace({&configuration, mode, step, pass}, 0.0);
    if (fresh) at->second = predict(configuration, mode, step * kFactorStep, pass * kPassStep);
    return at->second;
  }

  void judge(const Configuration& configuration) {
    std::string chosen;
    double chosen_s = INFINITY, best_s = INFINITY;
    for (const std::string& mode : kModes) {
      const auto found = configuration.iteration_s.find(mode);
      if (found == configuration.iteration_s.end()) continue;
      const int pass = pass_of(configuration);
      const std::string family = family_of(mode, configuration);
      const double factor = fit(configuration, family, pass).factor;
      factors_[{configuration.setup, family}] = factor;
      const double predicted = predict(configuration, mode, factor, pass * kPassStep);
      const double error = predicted / found->second - 1;
      errors_.push_back(std::abs(error));
      std::printf("%-12s %8.1f  %-10s %12.1f %12.1f %7.1f%%\n", configuration.setup.c_str(),
                  configuration.gbit, mode.c_str(), 1e3 * found->second, 1e3 * predicted, 100 * error);
      report_.measure(cat(mode, "_", configuration.setup, "_", configuration.gbit, "_error"), error, "");
      if (mode == "ddp") continue;  // not one of kith's own
      best_s = std::min(best_s, found->second);
      if (predicted < chosen_s) {
        chosen_s = predicted;
        chosen = mode;
      }
    }
    const double loss = configuration.iteration_s.at(chosen) / best_s - 1;
    worst_choice_ = std::max(worst_choice_, loss);
    std::printf("%-12s %8.1f  choice: %s, %.1f%% slower than the best measured\n",
                configuration.setup.c_str(), configuration.gbit, chosen.c_str(), 100 * loss);
  }

  static constexpr double kFactorStep = 0.2;
  static constexpr int kFactorSteps = 30;
  static constexpr double kPassStep = 0.05e-9;
  static constexpr int kPassSteps = 8;

  const Flags flags_;
  const std::vector<Configuration> configurations_;
  Report report_{"predict"};
  std::set<std::string> families_;
  std::map<std::tuple<std::string, std::string, int>, Fit> fits_;  // by set-up, family and price of a pass
  std::map<std::string, int> passes_;                              // by set-up
  std::map<std::pair<std::string, std::string>, double> factors_;  // by set-up and family
  std::map<std::tuple<const Configuration*, std::string, int, int>, double> tried_;
  std::vector<double> errors_;
  double worst_choice_ = 0;
};

}  // namespace
}  // namespace kith::bench

int main(int argc, char** argv) {
  using namespace kith::bench;
  Flags flags;
  flags.common = parse(
      argc, argv, "predict", "The runtime model against bench/cluster's measurements", [&](CLI::App& app) {
        app.add_option("--csv", flags.csv, "what bench/cluster --csv wrote")->capture_default_str();
        app.add_option("--cores", flags.cores, "that the hosts shared")->check(CLI::Range(1, 4096));
      });
  try {
    return Judge(flags).run();
  } catch (const kith::InputError& error) {
    std::cerr << "bench/predict: " << error.what() << "\n";
    return 2;
  }
}
