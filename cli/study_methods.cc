#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/data_folders.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/graph/schedule.h"
#include "kith/plan/units.h"
#include "kith/train/study/method_study.h"

namespace kith::cli {
namespace {

namespace study = train::study;

struct MethodsFlags {
  study::MethodStudyOptions options;
  std::string topology = "ring";
  std::string split = "mixed";
  std::vector<std::string> methods;
  std::vector<double> rates;
  std::string link = "1gbit", latency = "100us", compute = "10ms";
  std::string data, out = "runs/methods";
};

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw Error("cannot be written", path.string(), "is the folder writable?");
}

// Where images lie unless --data says otherwise: beside MNIST, as `kith data mnist` leaves it.
std::filesystem::path image_folder(const std::string& problem) {
  const std::filesystem::path mnist = data_folders().mnist;
  return problem == "fashion" ? mnist.parent_path() / "fashion" : mnist;
}

study::MethodStudyOptions options_of(const MethodsFlags& flags) {
  study::MethodStudyOptions options = flags.options;
  options.problem.workers = options.trial.workers;
  options.problem.data =
      flags.data.empty() ? image_folder(options.problem.name) : std::filesystem::path(flags.data);
  if (flags.split != "mixed" && flags.split != "by-label")
    throw InputError(cat("'", flags.split, "'"), "--split", "mixed or by-label");
  options.problem.split = flags.split == "mixed" ? study::Split::mixed : study::Split::by_label;
  const std::vector<study::Entry> all = study::all_entries(flags.topology);
  options.entries = flags.methods.empty() ? all : study::named_entries(all, flags.methods, "--method");
  if (!flags.rates.empty()) options.sgd_rates = options.adam_rates = flags.rates;
  options.trial.network = {.bytes_per_s = plan::parse_bytes_per_s(flags.link, "--link"),
                           .latency_s = plan::parse_seconds(flags.latency, "--latency"),
                           .compute_s = plan::parse_seconds(flags.compute, "--compute")};
  if (!(options.trial.network.bytes_per_s > 0)) throw InputError("a bandwidth of zero", "--link");
  const auto schedule = graph::make_schedule(
      {.topology = flags.topology, .shape = graph::Shape::single_node(std::max(1, options.trial.workers))});
  if (schedule->directed())
    throw InputError(cat("'", flags.topology, "' is directed"), "--topology",
                     "an undirected one; sgp and q-push take exp-directed by themselves");
  study::validate(options);
  study::make_problem(options.problem);  // also: are the images there?
  return options;
}

void write_all(const std::filesystem::path& folder, const study::MethodStudyOptions& options,
               const std::vector<study::MethodRow>& rows, const std::string& title) {
  write_text(folder / "methods.json", study::method_json(options, rows));
  write_text(folder / "table.txt", study::method_table(rows, "awc"));
  write_text(folder / "steps.svg", study::method_svg(rows, study::Over::steps, title));
  write_text(folder / "bytes.svg", study::method_svg(rows, study::Over::bytes, title));
  write_text(folder / "time.svg", study::method_svg(rows, study::Over::time, title));
}

void run_methods(const MethodsFlags& flags) {
  const study::MethodStudyOptions options = options_of(flags);
  std::error_code problem;
  std::filesystem::create_directories(flags.out, problem);
  if (problem) throw InputError(problem.message(), flags.out, "choose another --out");
  const std::string title =
      cat(options.problem.name, ", ", options.trial.workers, " workers, ", flags.topology);
  std::vector<study::MethodRow> rows;
  for (const study::Entry& entry : options.entries) {
    rows.push_back(
        study::study_method(options, entry, [](const std::string& text) { std::cerr << text << std::endl; }));
    write_all(flags.out, options, rows, title);
  }
  std::cout << study::method_table(rows, "awc") << "\nstudy folder: " << flags.out
            << " (methods.json, table.txt, steps.svg, bytes.svg, time.svg)\n";
}

}  // namespace

void add_study_methods(CLI::App& group) {
  auto flags = std::make_shared<MethodsFlags>();
  CLI::App* command = group.add_subcommand(
      "methods", "Every method on a small problem: loss over steps, bytes and modelled time");
  study::MethodStudyOptions& options = flags->options;
  command->add_option("--problem", options.problem.name, "quadratic, logistic, mnist or fashion")
      ->option_text("NAME [logistic]");
  command->add_option("--workers", options.trial.workers, "threads of this process")->option_text("N [16]");
  command->add_option("--topology", flags->topology, "of the methods that take any")
      ->option_text("NAME [ring]");
  command->add_option("--method", flags->methods, "this one, and again for more (default: all)")
      ->option_text("NAME")
      ->allow_extra_args(false);
  command->add_option("--steps", options.trial.steps, "of every run")->option_text("N [1000]");
  command->add_option("--score-every", options.trial.score_every, "steps between points of the curves")
      ->option_text("N [100]");
  command->add_option("--batch", options.problem.batch, "samples of a worker in a step")
      ->option_text("N [32]");
  command->add_option("--hidden", options.problem.hidden, "mnist, fashion: units; 0 is softmax regression")
      ->option_text("N [32]");
  command->add_option("--split", flags->split, "whose data workers have: mixed, or by-label")
      ->option_text("HOW [mixed]");
  command->add_option("--seeds", options.seeds, "of the runs that are reported")
      ->delimiter(',')
      ->option_text("S,S [1,2,3]");
  command->add_option("--rates", flags->rates, "to choose from, ascending, on a seed of its own")
      ->delimiter(',')
      ->option_text("LR,LR");
  command->add_option("--link", flags->link, "modelled: of each worker")->option_text("RATE [1gbit]");
  command->add_option("--latency", flags->latency, "modelled: of a message")->option_text("TIME [100us]");
  command->add_option("--compute", flags->compute, "modelled: forward and backward")
      ->option_text("TIME [10ms]");
  command->add_option("--data", flags->data, "mnist, fashion: folder of the four IDX files, unpacked")
      ->option_text("FOLDER");
  command->add_option("--out", flags->out, "the study folder")->option_text("FOLDER [runs/methods]");
  command->callback([flags] { run_methods(*flags); });
}

}  // namespace kith::cli
