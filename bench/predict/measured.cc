#include "bench/predict/measured.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "bench/common/problem.h"
#include "bench/common/report.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::bench {
namespace {

constexpr const char* kHeader =
    "setup,gbit,link_mb_per_s,link_cpu_ms_per_mb,mode,block,steps,ms,loss,waited_ms,step_ms,sent_mb,ledger_"
    "mb,kernel,idle";

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream in(line);
  for (std::string word; std::getline(in, word, ',');)
    words.push_back(word);
  return words;
}

struct Samples {
  std::vector<double> seconds, steps;
};

}  // namespace

std::vector<double> Configuration::layer_bytes() const {
  Problem problem{.inputs = 1024, .hidden = 1024, .hidden_layers = 3, .batch = 64};
  if (setup.starts_with("large")) problem.hidden = 2048;
  std::vector<double> layers{4.0 * static_cast<double>((problem.hidden + 1) * Problem::kOutputs)};
  for (std::int64_t layer = 1; layer < problem.hidden_layers; ++layer)
    layers.push_back(4.0 * static_cast<double>((problem.hidden + 1) * problem.hidden));
  layers.push_back(4.0 * static_cast<double>((problem.inputs + 1) * problem.hidden));
  return layers;
}

int Configuration::hosts() const {
  return std::stoi(setup.substr(setup.find('_') + 1));
}

int Configuration::workers_per_host() const {
  return std::stoi(setup.substr(setup.find('x') + 1));
}

std::vector<Configuration> read_measured(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  if (!in || !std::getline(in, line))
    throw InputError("cannot be read", file, "bench/cluster --csv FILE writes it");
  if (line != kHeader)
    throw InputError(cat("begins with '", line, "'"), file, "bench/cluster --csv FILE writes it");
  std::vector<Configuration> all;
  std::map<std::pair<std::string, double>, std::map<std::string, Samples>> samples;
  for (int number = 2; std::getline(in, line); ++number) {
    const std::vector<std::string> words = split(line);
    if (words.size() != 15)
      throw InputError(cat("'", line, "'"), cat(file, ":", number), "15 fields to a line");
    const double gbit = std::stod(words[1]);
    if (!samples.contains({words[0], gbit}))
      all.push_back({words[0], gbit, std::stod(words[2]) * 1e6, std::stod(words[3]) * 1e-9, {}, 0});
    Samples& mode = samples[{words[0], gbit}][words[4]];
    mode.seconds.push_back(std::stod(words[7]) / 1e3);
    mode.steps.push_back(std::stod(words[10]) / 1e3);
  }
  for (Configuration& configuration : all) {
    for (const auto& [mode, times] : samples.at({configuration.setup, configuration.gbit})) {
      configuration.iteration_s[mode] = summarise(times.seconds).median;
      if (mode == "none") configuration.local_step_s = summarise(times.steps).median;
    }
    if (!configuration.iteration_s.contains("none"))
      throw InputError(cat("no local-only blocks for ", configuration.setup), file);
  }
  return all;
}

}  // namespace kith::bench
