#include "bench/gpu_training/parts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <vector>

#include "bench/gpu_training/team.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::bench {
namespace {

constexpr int kWorkers = 4;
constexpr int kWarmUp = 3;
constexpr int kPilot = 3;

GpuJob mlp_job(const PartOptions& options) {
  const std::string& device = options.device;
  if (device == "cpu")
    return {
        .model = "mlp", .device = device, .layers = 3, .width = 64, .batch = 8, .backend = options.backend};
  return {
      .model = "mlp", .device = device, .layers = 8, .width = 4096, .batch = 256, .backend = options.backend};
}

GpuJob gpt_job(const PartOptions& options, std::int64_t batch) {
  const std::string& device = options.device;
  if (device == "cpu") {
    return {.model = "gpt",
            .device = device,
            .layers = 2,
            .width = 64,
            .batch = batch / 4,
            .heads = 2,
            .context = 32,
            .vocabulary = 301,
            .backend = options.backend};
  }
  return {.model = "gpt",
          .device = device,
          .layers = 12,
          .width = 768,
          .batch = batch,
          .heads = 12,
          .context = 1024,
          .vocabulary = 50304,  // 50257, padded to a multiple of 64
          .backend = options.backend};
}

// The blocks of one contestant: seconds per step of each, and the losses that show that it trains.
struct Record {
  std::vector<double> times{};
  double first_loss = 0;
  double last_loss = 0;
  double waited = 0;   // seconds a step, for neighbours
  double stepped = 0;  // seconds a step, in step()

  void add(const Lap& lap, int steps) {
    if (times.empty()) first_loss = lap.loss;
    times.push_back(lap.seconds / steps);
    last_loss = lap.loss;
    waited = lap.waited / steps;
    stepped = lap.stepped / steps;
  }
  Summary milliseconds() const {
    std::vector<double> ms = times;
    for (double& t : ms)
      t *= 1e3;
    return summarise(ms);
  }
  // Empty when it trains, else what is wrong.
  std::string problem(const std::string& name) const {
    if (std::isfinite(last_loss) && last_loss < first_loss) return {};
    return cat(name, ": the loss went from ", first_loss, " to ", last_loss, "; ");
  }
};

using Records = std::map<std::string, Record>;

// Block by block, b's time over a's.
Summary ratio(const Record& a, const Record& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.times.size(); ++i)
    ratios.push_back(b.times[i] / a.times[i]);
  return summarise(ratios);
}

int steps_of_a_block(const PartOptions& options, double pilot_seconds) {
  return std::clamp(static_cast<int>(options.block_seconds / pilot_seconds), 3, 60);
}

// What is left when a later block fails.
void tell_pilot(const std::string& name, double seconds) {
  std::printf("pilot, %s: %.2f ms an iteration\n", name.c_str(), 1e3 * seconds);
  std::fflush(stdout);
}

void print_time(const char* name, const Record& record, const Summary& to_local) {
  const Summary ms = record.milliseconds();
  std::printf("  %-12s %8.2f [%7.2f, %7.2f]   %6.3f [%.3f, %.3f]   %7.2f %7.2f   %.4f to %.4f\n", name,
              ms.median, ms.low, ms.high, to_local.median, to_local.low, to_local.high, 1e3 * record.stepped,
              1e3 * record.waited, record.first_loss, record.last_loss);
}

// The modes in turn, block by block. `modes` begins with none.
Records run_modes(Team& team, const std::vector<std::string>& modes, const PartOptions& options,
                  const std::string& title) {
  std::map<std::string, double> pilot;
  for (const std::string& mode : modes) {
    pilot[mode] = team.run(cat("run ", mode, " ", kWarmUp, " ", kPilot)).seconds / kPilot;
    tell_pilot(mode, pilot[mode]);
  }
  const int steps = steps_of_a_block(options, pilot[modes.front()]);
  Records records;
  for (int block = 0; block < options.blocks; ++block) {
    for (const std::string& mode : modes)
      records[mode].add(team.run(cat("run ", mode, " 0 ", steps)), steps);
  }
  std::printf("\n%s, %d blocks of %d iterations\n", title.c_str(), options.blocks, steps);
  std::printf(
      "  mode         ms an iteration [10%%, 90%%]   to local-only           step()  waited   loss\n");
  for (const std::string& mode : modes)
    print_time(mode == "none" ? "local-only" : mode.c_str(), records[mode],
               ratio(records["none"], records[mode]));
  std::fflush(stdout);
  return records;
}

// Error unless all modes train, and workers that mix stay closer to each other than those that do not.
void verify(Team& team, const std::vector<std::string>& modes, const Records& records) {
  std::string problems;
  std::map<std::string, double> distance;
  for (const std::string& mode : modes) {
    problems += records.at(mode).problem(mode);
    distance[mode] = team.number("distance " + mode);
    std::printf("  consensus distance, %s: %.4g\n", mode.c_str(), distance[mode]);
  }
  std::fflush(stdout);
  for (const std::string& mode : modes) {
    if (mode != "none" && !(distance[mode] < 0.5 * distance["none"]))
      problems += cat(mode, ": the workers are as far apart as if they did not mix; ");
  }
  if (!problems.empty()) throw Error(problems, "results");
}

}  // namespace

void measure_mlp(const PartOptions& options, Report& report) {
  const GpuJob job = mlp_job(options);
  Team team = Team::kith(kWorkers, job, options.deadline);
  const std::string title = cat(kWorkers, " workers on one ", job.device, " over ", job.backend, ", MLP of ",
                                team.number("parameters none") / 1e6, " M parameters, batch ", job.batch);
  const auto measure = [&](const std::vector<std::string>& modes, const PartOptions& how) {
    const Records records = run_modes(team, modes, how, title);
    verify(team, modes, records);
    return records;
  };
  const Records records = measure({"none", "exp", "aer"}, options);
  for (const auto& [mode, record] : records)
    report.measure("mlp_" + mode, record.milliseconds(), "ms");
  for (const std::string mode : {"exp", "aer"}) {
    if (options.has_goals())
      report.at_most(cat("gpu_training.mlp_", mode, "_to_local"),
                     ratio(records.at("none"), records.at(mode)).median, 1.05);
  }
  const Records on_wire = measure({"none", "exp-bf16"}, options);
  report.measure("mlp_exp-bf16", on_wire.at("exp-bf16").milliseconds(), "ms");
  if (options.has_goals())
    report.at_most("gpu_training.mlp_exp-bf16_to_local",
                   ratio(on_wire.at("none"), on_wire.at("exp-bf16")).median, 1.05);
}

void measure_ddp(const PartOptions& options, Report& report) {
  const GpuJob job = mlp_job(options);
  Team team = Team::python("ddp.py", kWorkers, job, options.deadline);
  const double pilot = team.run(cat("run ", kWarmUp, " 1")).seconds;
  const int steps = std::min(8, steps_of_a_block(options, pilot));
  Record record;
  for (int block = 0; block < 3; ++block)
    record.add(team.run(cat("run 0 ", steps)), steps);
  const Summary ms = record.milliseconds();
  std::printf(
      "\nPyTorch's DDP over Gloo on the same MLP: %.2f ms an iteration [%.2f, %.2f], loss %.4f to %.4f\n",
      ms.median, ms.low, ms.high, record.first_loss, record.last_loss);
  const std::string problem = record.problem("ddp");
  if (!problem.empty()) throw Error(problem, "results");
  report.measure("mlp_ddp", ms, "ms");
}

namespace {

// A goal for each of PyTorch's programs: kith's speed over its.
struct Peer {
  std::string script;  // of this folder
  std::string name;
  double goal;
};

// kith beside PyTorch's programs of the same model, in turns.
void measure_beside(const PartOptions& options, Report& report, const GpuJob& job, const std::string& title,
                    const std::vector<Peer>& peers) {
  Team ours = Team::kith(1, job, options.deadline);
  std::map<std::string, Team> theirs;
  for (const Peer& peer : peers)
    theirs.emplace(peer.name, Team::python(peer.script, 1, job, options.deadline));
  const double parameters = ours.number("parameters none");
  const double pilot = ours.run(cat("run none ", kWarmUp, " ", kPilot)).seconds / kPilot;
  tell_pilot("kith", pilot);
  for (auto& [name, team] : theirs) {
    if (const double count = team.number("parameters"); count != parameters)
      throw Error(cat("kith's model has ", parameters, " parameters, that of ", name, " ", count), title);
    tell_pilot(name, team.run(cat("run ", kWarmUp, " ", kPilot)).seconds / kPilot);
  }
  const int steps = steps_of_a_block(options, pilot);
  Records records;
  for (int block = 0; block < options.blocks; ++block) {
    records["kith"].add(ours.run(cat("run none 0 ", steps)), steps);
    for (auto& [name, team] : theirs)
      records[name].add(team.run(cat("run 0 ", steps)), steps);
  }
  std::printf("\n%s of %.0f parameters, bf16 autocast, batch %ld, one worker, %d blocks of %d iterations\n",
              title.c_str(), parameters, static_cast<long>(job.batch), options.blocks, steps);
  std::string problems;
  const Record& kith = records["kith"];
  for (const auto& [name, record] : records) {
    const Summary ms = record.milliseconds();
    std::printf("  %-14s %9.0f %s/s   %8.2f ms an iteration [%7.2f, %7.2f]   loss %.4f to %.4f\n",
                name.c_str(), static_cast<double>(job.units()) / ms.median * 1e3, job.unit(), ms.median,
                ms.low, ms.high, record.first_loss, record.last_loss);
    problems += record.problem(name);
    // Both learn one batch by heart; what rounding makes of that is no matter of speed.
    if (std::abs(kith.last_loss - record.last_loss) > 0.05 * kith.first_loss)
      problems +=
          cat("after the same steps kith's loss is ", kith.last_loss, ", ", name, "'s ", record.last_loss);
    report.measure(cat(job.model, "_", job.batch, "_", name), ms, "ms");
  }
  std::fflush(stdout);
  if (!problems.empty()) throw Error(problems, "results");
  for (const Peer& peer : peers) {
    if (options.has_goals())
      report.at_least(cat("gpu_training.", job.model, "_", job.batch, "_to_", peer.name),
                      ratio(kith, records[peer.name]).median, peer.goal);
  }
}

void measure_gpt(const PartOptions& options, Report& report, std::int64_t batch) {
  std::vector<Peer> peers{{"eager.py", "eager", 1}};
  if (options.device == "cuda") peers.push_back({"compiled.py", "compiled", 0.9});
  const GpuJob job = gpt_job(options, batch);
  measure_beside(options, report, job, cat("GPT, sequences of ", job.context, " tokens,"), peers);
}

}  // namespace

void measure_gpt_8(const PartOptions& options, Report& report) {
  measure_gpt(options, report, 8);
}

void measure_gpt_32(const PartOptions& options, Report& report) {
  measure_gpt(options, report, 32);
}

void measure_resnet(const PartOptions& options, Report& report) {
  if (options.device == "cpu") {
    std::printf("\nResNet-50 is for GPUs: PyTorch's own comes with torchvision\n");
    return;
  }
  const GpuJob job{.model = "resnet50", .device = options.device, .width = 224, .batch = 256};
  measure_beside(options, report, job, "ResNet-50, channels last,", {{"eager_resnet.py", "eager", 1}});
}

void measure_gpt_workers(const PartOptions& options, Report& report) {
  const GpuJob job = gpt_job(options, 8);
  const std::vector<std::string> modes{"none", "aer"};
  Team team = Team::kith(kWorkers, job, options.deadline);
  const Records records =
      run_modes(team, modes, options,
                cat(kWorkers, " workers on one ", job.device, " over ", job.backend,
                    ", GPT, bf16 autocast, batch ", job.batch, " of ", job.context, " tokens"));
  for (const std::string& mode : modes) {
    const double ms = records.at(mode).milliseconds().median;
    std::printf("  %s: %.0f tokens/s together\n", mode.c_str(),
                1e3 * kWorkers * static_cast<double>(job.tokens()) / ms);
    report.measure("gpt_workers_" + mode, records.at(mode).milliseconds(), "ms");
  }
  verify(team, modes, records);
  if (options.has_goals())
    report.at_least("gpu_training.gpt_workers_to_local", ratio(records.at("aer"), records.at("none")).median,
                    0.97);
}

}  // namespace kith::bench
