#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kith/train/config/read.h"
#include "kith/train/study/design.h"

namespace kith::train::study {

struct Value {
  std::string key, value;
  bool operator==(const Value&) const = default;
};

// What is compared: a method at one point of its axes. Its rate is looked for, its lengths and seeds are
// repeats.
struct Cell {
  std::string method;
  std::vector<Value> axes;  // what tells it from the method's other cells
  std::vector<Setting> settings;
  std::vector<std::int64_t> lengths;  // ascending
  std::vector<Axis> tuned;

  std::string title() const;  // "aer", "aer topology.name=exp"
  // Empty: the setting is none of the study's.
  std::string value_of(std::string_view key) const;
  // The first value of everything that is tuned.
  std::vector<Value> first_choice() const;
};

// One training. Two with the same name are the same.
struct Run {
  std::string title;  // "aer rate.lr=0.004, 3000 steps, seed 1"
  std::string name;   // its folder
  std::vector<Setting> settings;
  std::vector<Value> choice;  // of what is tuned
  std::int64_t steps = 0;
  std::int64_t seed = 0;
};

// In the order of the file.
std::vector<Cell> cells_of(const Design& design);

// Every combination of what is tuned, with the seeds and the length for tuning; none where nothing has two
// values.
std::vector<Run> tuning_runs(const Design& design, const Cell& cell);
// All lengths and seeds.
std::vector<Run> measuring_runs(const Design& design, const Cell& cell, const std::vector<Value>& choice);

// The cell of the baseline that a cell is compared with: the same point of the common axes. Null: there is
// none, or it is the cell itself.
const Cell* baseline_of(const Design& design, const std::vector<Cell>& cells, const Cell& cell);

}  // namespace kith::train::study
