#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kith/train/study/grid.h"

namespace kith::train::study {

// How a run ended.
struct Result {
  bool failed = false;
  double loss = 0;  // of the mean model, on the validation samples; NaN: it diverged
  double accuracy = 0;
  double consensus_distance = 0;
  double seconds = 0;
};

using Results = std::map<std::string, Result, std::less<>>;  // by the run's name

// What lies in a run's folder.
enum class Left : std::uint8_t {
  nothing,  // that could be gone on with
  part,     // a checkpoint: `kith train --resume` goes on
  all,
};
Left left_of(const std::filesystem::path& folder);

// Of a run that has left all. InputError when its numbers cannot be read.
Result read_result(const std::filesystem::path& folder);

// What was found best for a cell, of what is tuned.
struct Choice {
  std::vector<Value> values;
  std::vector<std::string> at_edge;  // keys whose best number is the first or the last of its list
};

struct Tried {
  std::vector<Value> values;
  double mean_loss = 0;  // infinite where a run failed or diverged
  std::size_t runs = 0;
};

// Every combination of what is tuned, as far as it has been run.
std::vector<Tried> tried(const Design& design, const Cell& cell, const Results& results);

// Empty until all of the cell's tuning has ended, and when all of it failed.
std::optional<Choice> choice_of(const Design& design, const Cell& cell, const Results& results);

// What the study wants, as far as can be known now, in the order in which it is to be run: tuning first, and
// each cell's measurement once it is tuned. Nothing twice.
std::vector<Run> wanted_runs(const Design& design, const std::vector<Cell>& cells, const Results& results);

// How many runs there will be, once all is tuned.
std::size_t total_runs(const Design& design, const std::vector<Cell>& cells, const Results& results);

// The next to start. Null: none can be, now.
const Run* next_run(const std::vector<Run>& wanted, const Results& results,
                    const std::set<std::string>& running);

}  // namespace kith::train::study
