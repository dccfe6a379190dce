#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace kith::bench {

// What every benchmark takes: --quick (under 50 s) and --json FILE.
struct Options {
  bool quick = false;
  std::string json;
};

// Parses the command line of a benchmark, which may add options of its own; prints help or a usage error and
// exits the process (0 or 2) when it must.
Options parse(int argc, char** argv, const std::string& name, const std::string& what,
              const std::function<void(CLI::App&)>& add_options = {});

struct Summary {
  double median = 0;
  double low = 0;   // 10th percentile
  double high = 0;  // 90th percentile
};

// REQUIRES: at least one sample.
Summary summarise(std::vector<double> samples);

// Collects measurements and goals; prints a goal as `goal NAME MEASURED TARGET met|missed`.
class Report {
 public:
  explicit Report(std::string benchmark) : benchmark_(std::move(benchmark)) {}

  // A number for the JSON file.
  void measure(const std::string& name, double value, const std::string& unit);
  void measure(const std::string& name, const Summary& summary, const std::string& unit);

  // Met when measured >= target (at_least) or measured <= target (at_most).
  void at_least(const std::string& name, double measured, double target);
  void at_most(const std::string& name, double measured, double target);

  // Prints the goals that were not printed before.
  void tell();

  // Tells, writes the JSON when asked, and returns the exit code: a missed goal is not an error.
  int finish(const Options& options);

 private:
  struct Measurement {
    std::string name;
    Summary summary;
    std::string unit;
  };
  struct Goal {
    std::string name;
    double measured = 0;
    double target = 0;
    bool met = false;
  };

  std::string benchmark_;
  std::vector<Measurement> measurements_;
  std::vector<Goal> goals_;
  std::size_t told_ = 0;  // of goals_
};

}  // namespace kith::bench
