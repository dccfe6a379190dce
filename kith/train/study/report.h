#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kith/train/study/results.h"
#include "kith/train/study/statistics.h"

namespace kith::train::study {

// One length of a cell, over its seeds.
struct LengthRow {
  std::int64_t steps = 0;
  Estimate loss;
  std::optional<Estimate> over_baseline;  // at the same length and seeds, seed by seed
};

// Steps that a cell needs for the loss of the baseline's runs of Design::steps, over those.
struct StepsFactor {
  Estimate factor;
  bool outside = false;  // of the lengths that were run
};

struct CellReport {
  Cell cell;
  std::optional<Choice> choice;
  std::vector<Tried> tuning;
  std::vector<LengthRow> lengths;  // those that have a finished run
  std::optional<StepsFactor> factor;
};

struct Report {
  std::string baseline;
  std::int64_t steps = 0;
  std::size_t runs_done = 0, runs_failed = 0, runs = 0;
  bool tuned_on_its_seeds = false;  // rates were chosen on the seeds that are reported
  std::vector<CellReport> cells;
};

// As far as there are results. Seeds without all that a comparison needs are left out of that comparison.
Report report_on(const Design& design, const std::vector<Cell>& cells, const Results& results);

// For a terminal or a page: a row per cell and length.
std::string table_text(const Report& report);

// Everything: the report, and each wanted run with its command, folder and result. `commands` are those of
// `wanted`.
std::string report_json(const Design& design, const Report& report, const std::vector<Run>& wanted,
                        const std::vector<std::string>& commands, const Results& results);

}  // namespace kith::train::study
