#include "bench/common/report.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

namespace kith::bench {

Options parse(int argc, char** argv, const std::string& name, const std::string& what,
              const std::function<void(CLI::App&)>& add_options) {
  Options options;
  CLI::App app(what, "bench/" + name);
  app.add_flag("--quick", options.quick, "fewer blocks and sizes: under 50 s");
  app.add_option("--json", options.json, "also write the numbers to FILE")->option_text("FILE");
  if (add_options) add_options(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  return options;
}

Summary summarise(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double quantile) {
    return samples[static_cast<std::size_t>(quantile * static_cast<double>(samples.size() - 1) + 0.5)];
  };
  return {at(0.5), at(0.1), at(0.9)};
}

void Report::measure(const std::string& name, double value, const std::string& unit) {
  measure(name, Summary{value, value, value}, unit);
}

void Report::measure(const std::string& name, const Summary& summary, const std::string& unit) {
  measurements_.push_back({name, summary, unit});
}

void Report::at_least(const std::string& name, double measured, double target) {
  goals_.push_back({name, measured, target, measured >= target});
}

void Report::at_most(const std::string& name, double measured, double target) {
  goals_.push_back({name, measured, target, measured <= target});
}

void Report::tell() {
  for (; told_ < goals_.size(); ++told_) {
    const Goal& g = goals_[told_];
    std::printf("goal %s %.4g %.4g %s\n", g.name.c_str(), g.measured, g.target, g.met ? "met" : "missed");
  }
  std::fflush(stdout);
}

int Report::finish(const Options& options) {
  if (!options.json.empty()) {
    nlohmann::json out{{"benchmark", benchmark_}, {"quick", options.quick}};
    for (const Measurement& m : measurements_) {
      out["measurements"].push_back({{"name", m.name},
                                     {"median", m.summary.median},
                                     {"low", m.summary.low},
                                     {"high", m.summary.high},
                                     {"unit", m.unit}});
    }
    for (const Goal& g : goals_) {
      out["goals"].push_back(
          {{"name", g.name}, {"measured", g.measured}, {"target", g.target}, {"met", g.met}});
    }
    std::ofstream file(options.json);
    file << out.dump(2) << "\n";
    if (!file.flush()) {
      std::cerr << "bench/" << benchmark_ << ": cannot write '" << options.json << "'\n";
      return 2;
    }
  }
  tell();
  return 0;
}

}  // namespace kith::bench
