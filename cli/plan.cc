#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/plan_report.h"
#include "cli/plan_svg.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/plan/outlook.h"
#include "kith/plan/plan_file.h"
#include "kith/plan/units.h"

namespace kith::cli {
namespace {

constexpr int kMostIterations = 1'000'000;

struct PlanOptions {
  std::string profile;
  std::string nodes;
  std::string link;
  std::vector<std::string> sweeps;
  std::string svg;
  std::string toml;
  plan::SimulationOptions simulation;
  bool json = false;
  bool why = false;
};

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw Error("cannot be written", path, "is the folder there and writable?");
}

plan::Profile profile_of(const PlanOptions& options) {
  plan::Profile profile = plan::read_profile(options.profile);
  if (!options.link.empty()) {
    const double rate = plan::parse_bytes_per_s(options.link, "--link");
    if (rate == 0) throw InputError("a bandwidth of zero", "--link");
    profile = plan::with_link(profile, rate);
  }
  if (!options.nodes.empty())
    profile = plan::with_nodes(profile, graph::Shape::parse(options.nodes, "--nodes"));
  return profile;
}

// Large worlds take a while, and nothing is seen of it. `workers` counts those of all predictions together.
void tell_duration(double workers, const plan::SimulationOptions& simulation) {
  constexpr double kPerSecond = 2e6;  // steps of one worker that a core simulates
  const double seconds = workers * simulation.iterations / kPerSecond;
  if (seconds < 10) return;
  std::cerr << "kith plan: this takes about " << static_cast<std::int64_t>(seconds)
            << " s (fewer workers and fewer --iterations take less)" << std::endl;
}

double workers_of(const plan::Axis& across, const plan::Axis& down, const plan::Profile& profile) {
  constexpr double kPredictions = 4;  // of a cell
  const auto sum = [&](const plan::Axis& axis) {
    double workers = 0;
    for (const double value : axis.values)
      workers += axis.swept == plan::Swept::workers ? value : 1;
    return workers;
  };
  const bool varied = across.swept == plan::Swept::workers || down.swept == plan::Swept::workers;
  return kPredictions * sum(across) * sum(down) * (varied ? 1 : profile.nodes.workers());
}

void run_sweep(const PlanOptions& options, const plan::Profile& profile) {
  if (options.sweeps.size() != 2) {
    throw InputError(cat(options.sweeps.size(), " of them"), "--sweep",
                     "a map has two, as --sweep bandwidth=1gbit..100gbit --sweep workers=8..256");
  }
  const plan::Axis across = plan::parse_axis(options.sweeps[0], "--sweep");
  const plan::Axis down = plan::parse_axis(options.sweeps[1], "--sweep");
  tell_duration(workers_of(across, down, profile), options.simulation);
  const plan::Map map = plan::sweep(profile, across, down, options.simulation);
  if (!options.svg.empty()) write_file(options.svg, svg_of(map, profile.name));
  if (options.json) {
    std::cout << to_json(map).dump(2) << "\n";
    return;
  }
  print_map(std::cout, map);
  if (!options.svg.empty()) std::cout << "\nmap written to " << options.svg << "\n";
}

// What is explained: the recommended topology, or where all-reduce is better the fastest one that was not.
plan::Candidate explained(const PlanReport& report) {
  if (!report.recommendation.choice.candidate.all_reduce()) return report.recommendation.choice.candidate;
  for (const plan::Prediction& p : report.predictions) {
    if (!p.candidate.all_reduce() && p.candidate.as_profiled()) return p.candidate;
  }
  return {"aer"};
}

void run_plan(const PlanOptions& options) {
  if (options.simulation.iterations < 1 || options.simulation.iterations > kMostIterations) {
    throw InputError(cat(options.simulation.iterations, " iterations"), "--iterations",
                     cat("1 to ", kMostIterations));
  }
  if (options.profile.empty()) {
    throw InputError("there is no profile", "--profile",
                     "kith profile measures a job and writes one; examples/profiles/ has some");
  }
  const plan::Profile profile = profile_of(options);
  if (!options.sweeps.empty()) return run_sweep(options, profile);
  if (!options.svg.empty())
    throw InputError("a map needs sweeps", "--svg", "give two --sweep, or leave --svg out");

  constexpr double kPredictions = 100;
  tell_duration(kPredictions * profile.nodes.workers(), options.simulation);
  PlanReport report{profile, plan::evaluate(profile, options.simulation), {}, {}};
  report.recommendation = plan::recommend(report.predictions);
  report.outlook = plan::what_would_change(profile, options.simulation);
  if (!options.toml.empty()) write_file(options.toml, plan_toml(profile, report.recommendation));
  if (options.json) {
    nlohmann::ordered_json json = to_json(report);
    if (options.why) json["why"] = to_json(plan::why(profile, explained(report), options.simulation));
    std::cout << json.dump(2) << "\n";
    return;
  }
  print_plan(std::cout, report);
  if (options.why) print_why(std::cout, plan::why(profile, explained(report), options.simulation));
  if (!options.toml.empty()) std::cout << "\nplan written to " << options.toml << "\n";
}

}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* plan = app.add_subcommand("plan", "Predict what a job would take, and how best to train it");
  plan->add_option("--profile", options->profile,
                   "What is known of the job and the cluster (docs/planning.md)")
      ->option_text("FILE");
  plan->add_option("--nodes", options->nodes, "Plan for these nodes: 4,4,2, or 8x4 for 8 nodes of 4")
      ->option_text("SHAPE");
  plan->add_option("--link", options->link, "Plan for this network between nodes: 25gbit, 12GB/s")
      ->option_text("RATE");
  plan->add_flag("--why", options->why, "Take the gain apart: overlap, topology, straggling");
  plan->add_option("--sweep", options->sweeps,
                   "Twice, for a map of speed-ups: bandwidth=1gbit..100gbit, workers=8..256, spread=0..0.4")
      ->option_text("WHAT=LOW..HIGH[:POINTS]")
      ->allow_extra_args(false);
  plan->add_option("--svg", options->svg, "Write the map to FILE")->option_text("FILE");
  plan->add_option("--toml", options->toml, "Write the recommended plan to FILE")->option_text("FILE");
  plan->add_option("--iterations", options->simulation.iterations, "Simulated iterations of each candidate")
      ->option_text("N");
  plan->add_option("--seed", options->simulation.seed, "Of the simulated times")->option_text("S");
  plan->add_flag("--json", options->json, "Print JSON");
  plan->callback([options] { run_plan(*options); });
}

}  // namespace kith::cli
