// gpu_training: whole training iterations on a GPU. 4 workers on one GPU with and without neighbours, with
// PyTorch's DDP beside them; GPT-2 small against PyTorch programs, eager and compiled. Contestants take turns
// in blocks, and a block is timed until the device has done all of it. This process itself does not touch the
// GPU.

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <vector>

#include "bench/common/report.h"
#include "bench/gpu_training/parts.h"
#include "bench/gpu_training/worker.h"

namespace kith::bench {
namespace {

struct Part {
  std::string name;
  void (*measure)(const PartOptions&, Report&);
};

const std::vector<Part> kParts{
    {"gpt-8", measure_gpt_8}, {"gpt-32", measure_gpt_32},           {"resnet", measure_resnet},
    {"mlp", measure_mlp},     {"gpt-workers", measure_gpt_workers}, {"ddp", measure_ddp}};

int run(int argc, char** argv) {
  PartOptions part_options{.device = KITH_BENCH_DEVICE};
  std::vector<std::string> wanted, names;
  double limit = 120;
  for (const Part& part : kParts)
    names.push_back(part.name);
  const Options options = parse(
      argc, argv, "gpu_training", "Training on a GPU: iteration times and tokens per second",
      [&](CLI::App& app) {
        app.add_option("--device", part_options.device, "cuda; or cpu, with tiny models, to try the program")
            ->check(CLI::IsMember({"cuda", "cpu"}));
        app.add_option("--backend", part_options.backend, "of several workers (cuda_ipc; on the cpu shm)");
        app.add_option("--part", wanted, "only this part; repeatable")->check(CLI::IsMember(names));
        app.add_option("--limit", limit, "seconds that a part may take")->check(CLI::PositiveNumber);
      });
  if (part_options.backend.empty()) part_options.backend = part_options.device == "cuda" ? "cuda_ipc" : "shm";
  if (options.quick) part_options.blocks = 4;
  if (part_options.device == "cpu") part_options.block_seconds = 0.1;
  ::signal(SIGPIPE, SIG_IGN);  // a worker that has ended is an error of its part

  Report report("gpu_training");
  bool failed = false;
  for (const Part& part : kParts) {
    if (!wanted.empty() && std::ranges::find(wanted, part.name) == wanted.end()) continue;
    const SteadyClock clock;
    const Clock::Time start = clock.now();
    part_options.deadline = start + from_seconds(limit);
    try {
      part.measure(part_options, report);
    } catch (const std::exception& error) {
      failed = true;
      std::fflush(stdout);
      std::cerr << "bench/gpu_training, part " << part.name << ": " << error.what() << std::endl;
    }
    report.tell();
    std::printf("part %s took %.1f s\n", part.name.c_str(), seconds(clock.now() - start));
    std::fflush(stdout);
  }
  const int code = report.finish(options);
  return failed ? 1 : code;
}

}  // namespace
}  // namespace kith::bench

int main(int argc, char** argv) {
  using namespace kith::bench;
  if (argc == 5 + GpuJob::kWords && std::string(argv[1]) == "--worker")
    return run_gpu_worker({std::atoi(argv[2]), std::atoi(argv[3]), argv[4], GpuJob::from(argv + 5)});
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "bench/gpu_training: " << error.what() << "\n";
    return 1;
  }
}
