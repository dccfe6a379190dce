#include <cmath>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/topo_drawing.h"
#include "cli/topo_report.h"
#include "cli/topo_svg.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/graph/limits.h"

namespace kith::cli {
namespace {

enum class Output { text, json };

struct TopoOptions {
  graph::ScheduleOptions schedule;
  std::optional<int> workers;
  std::string nodes;
  std::string svg;
  Output output = Output::text;
  bool matrices = false;
};

graph::Shape shape_of(const TopoOptions& options) {
  if (options.nodes.empty()) {
    if (!options.workers) throw InputError("how many workers?", {}, "--workers 8, or --nodes 4,4");
    if (*options.workers < 1 || *options.workers > graph::kMostWorkers) {
      throw InputError(cat(*options.workers, " workers"), "--workers", cat("1 to ", graph::kMostWorkers));
    }
    return graph::Shape::single_node(*options.workers);
  }
  const graph::Shape shape = graph::Shape::parse(options.nodes, "--nodes");
  if (options.workers && *options.workers != shape.workers()) {
    throw InputError(
        cat("'", options.nodes, "' has ", shape.workers(), " workers, --workers says ", *options.workers),
        "--nodes", "leave one of the two out");
  }
  return shape;
}

void write_svg(const graph::Schedule& schedule, const std::string& path) {
  std::ofstream file(path);
  file << svg_of(schedule);
  if (!file.flush()) throw Error("cannot be written", path, "is the folder there and writable?");
}

void require_few_numbers(const graph::Schedule& schedule) {
  constexpr double kMostNumbers = 1e7;
  const double numbers = std::pow(schedule.workers(), 2) * static_cast<double>(schedule.period());
  if (numbers <= kMostNumbers) return;
  throw InputError(cat(schedule.period(), " matrices of ", schedule.workers(), " x ", schedule.workers(),
                       " are ", numbers, " numbers"),
                   "--matrices", cat("at most ", kMostNumbers, ": fewer workers"));
}

void run_topo(TopoOptions options) {
  options.schedule.shape = shape_of(options);
  const std::unique_ptr<graph::Schedule> schedule = make_schedule(options.schedule);
  if (options.matrices) require_few_numbers(*schedule);
  if (!options.svg.empty()) write_svg(*schedule, options.svg);
  const TopoReport report = report_on(*schedule);
  if (options.output == Output::json) {
    nlohmann::ordered_json json = to_json(*schedule, report);
    if (options.matrices) json["matrices"] = matrices_json(*schedule);
    std::cout << json.dump(options.matrices ? -1 : 2) << "\n";
    return;
  }
  print_table(std::cout, *schedule, report);
  draw_rounds(std::cout, *schedule);
  if (options.matrices) print_matrices(std::cout, *schedule);
  if (!options.svg.empty()) std::cout << "\npicture written to " << options.svg << "\n";
}

}  // namespace

void add_topo(CLI::App& app) {
  auto options = std::make_shared<TopoOptions>();
  CLI::App* topo =
      app.add_subcommand("topo", "Show a topology: its rounds, how fast they average, what they move");
  topo->add_option("name", options->schedule.topology, "One of: " + join(graph::schedule_names()))
      ->required()
      ->option_text("NAME");
  topo->add_option("--workers", options->workers, "How many workers")->option_text("N");
  topo->add_option("--nodes", options->nodes, "Workers of each node: 4,4,2, or 8x4 for 8 nodes of 4")
      ->option_text("SHAPE");
  topo->add_option("--seed", options->schedule.seed, "For topologies that draw")->option_text("S");
  topo->add_option("--degree", options->schedule.degree,
                   "base: peers per round; random-directed: receivers per round")
      ->option_text("K");
  topo->add_option("--edge-probability", options->schedule.edge_probability,
                   "erdos-renyi: 0 picks 2 ln(n) / n")
      ->option_text("P");
  topo->add_option("--centres", options->schedule.centres, "sun, sun-rotating: how many centres")
      ->option_text("C");
  topo->add_option("--file", options->schedule.file, "file: the JSON of the rounds")->option_text("FILE");
  topo->add_flag_callback(
      "--json", [options] { options->output = Output::json; }, "Print JSON");
  topo->add_flag("--matrices", options->matrices, "Print the mixing matrices too");
  topo->add_option("--svg", options->svg, "Write a picture of the rounds to FILE")->option_text("FILE");
  topo->callback([options] { run_topo(*options); });
}

}  // namespace kith::cli
