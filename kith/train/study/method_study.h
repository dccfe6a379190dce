#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kith/train/study/statistics.h"
#include "kith/train/study/trial.h"

namespace kith::train::study {

// The same problem by several methods, each at the best of a list of rates, over seeds.
struct MethodStudyOptions {
  ProblemOptions problem;  // its seed is replaced
  TrialOptions trial;      // its rate is replaced
  std::vector<Entry> entries;
  std::vector<std::uint64_t> seeds{1, 2, 3};
  std::uint64_t tuning_seed = 1000;
  std::vector<double> sgd_rates{0.003125, 0.00625, 0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6};
  std::vector<double> adam_rates{0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128};
};

struct MethodRow {
  Entry entry;
  double lr = 0;
  bool edge = false;          // the best rate is the first or the last of its list
  std::vector<Trial> trials;  // by seed

  // Over the seeds, at the end of the runs. Diverged runs are none.
  Estimate loss() const;
  std::optional<Estimate> accuracy() const;  // in percent
  double bytes_per_step() const;
  double modelled_s() const;
  double distance() const;
};

// The best rate by the loss of the mean model at the end, looked for from the middle of the list uphill: a
// rate is tried while its neighbour was better. `tell` gets a line about each run.
using Tell = std::function<void(const std::string&)>;
MethodRow study_method(const MethodStudyOptions& options, const Entry& entry, const Tell& tell);

// InputError: no methods, seeds or rates, numbers out of range, a method that these workers cannot run.
void validate(const MethodStudyOptions& options);

// For a terminal or a page: a row per method. Bytes are compared with those of the entry `reference`, if it
// is there.
std::string method_table(const std::vector<MethodRow>& rows, const std::string& reference);
// Everything, curves included.
std::string method_json(const MethodStudyOptions& options, const std::vector<MethodRow>& rows);

// What the loss is drawn over.
enum class Over : std::uint8_t { steps, bytes, time };
// Means over the seeds, as SVG.
std::string method_svg(const std::vector<MethodRow>& rows, Over over, const std::string& title);

}  // namespace kith::train::study
