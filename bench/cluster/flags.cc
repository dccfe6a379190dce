#include "bench/cluster/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/registry.h"

namespace kith::bench {
namespace {

const std::vector<std::string> kSizes{"small", "large"};
const std::vector<std::string> kRates{"0.5", "1", "2.5", "10"};
const std::vector<std::string> kModes{"none", "torch",    "ddp", "ddp-fp16", "ddp-powersgd", "allreduce",
                                      "exp",  "exp-bf16", "aer", "aer-bf16", "aer-int8"};

Problem problem_of(const std::string& size) {
  Problem problem{.inputs = 1024, .hidden = 1024, .hidden_layers = 3, .batch = 64};  // 3.2 million parameters
  if (size == "large") problem.hidden = 2048;                                        // 10.5 million
  return problem;
}

// kith's way across hosts, where that is built.
bool has_routed() {
  return std::ranges::any_of(comm::backends(), [](const comm::Backend& b) { return b.name == "routed"; });
}

}  // namespace

Flags parse_flags(int argc, char** argv) {
  Flags flags;
  std::vector<std::string> sizes = kSizes, rates = kRates;
  std::vector<std::string> modes = has_routed() ? kModes : std::vector<std::string>{"none", "ddp"};
  std::vector<int> workers{1, 2};
  flags.common = parse(
      argc, argv, "cluster", "Time per iteration on four hosts: kith, PyTorch DDP over Gloo, and local only",
      [&](CLI::App& app) {
        app.add_option("--sizes", sizes, "of the model: small, large")
            ->delimiter(',')
            ->check(CLI::IsMember(kSizes));
        app.add_option("--rates", rates, "of each host's link, Gbit/s")
            ->delimiter(',')
            ->check(CLI::PositiveNumber);
        app.add_option("--workers", workers, "per host")->delimiter(',')->check(CLI::Range(1, 16));
        app.add_option("--modes", modes,
                       "none, torch, ddp, ddp-fp16, ddp-powersgd, allreduce, or a topology with or without "
                       "-bf16, -int8")
            ->delimiter(',');
        app.add_option("--blocks", flags.blocks, "of each mode")->check(CLI::Range(1, 1000));
        app.add_option("--csv", flags.csv, "a line per block into FILE")->option_text("FILE");
        app.add_option("--transport", flags.contest.transport, "backend of kith's workers");
        app.add_option("--trace", flags.contest.trace,
                       "Chrome traces of kith's workers into FOLDER (an absolute path)")
            ->option_text("FOLDER");
      });
  if (flags.common.quick) {
    sizes = {"small"};
    rates = {"1"};
    workers = {1};
    flags.blocks = 5;
  }
  for (const std::string& size : sizes) {
    for (const int count : workers)
      flags.setups.push_back({size, problem_of(size), 4, count});
  }
  for (const std::string& rate : rates)
    flags.rates.push_back({cat(rate, "gbit"), std::stod(rate) * 1e9});
  // The ratios are to these two.
  for (const char* needed : {"ddp", "none"}) {
    if (std::find(modes.begin(), modes.end(), needed) == modes.end()) modes.insert(modes.begin(), needed);
  }
  flags.modes = modes;
  return flags;
}

}  // namespace kith::bench
