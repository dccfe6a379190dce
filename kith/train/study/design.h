#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kith::train::study {

// A key of a configuration and what it is to be: one value is a setting, several are an axis of the grid.
struct Axis {
  std::string key;                  // "topology.name"
  std::vector<std::string> values;  // as --set takes them
  std::string place;                // "study.toml:12"
};

struct Method {
  std::string name;
  std::vector<Axis> settings;  // over the common ones, in the order of the file
  std::vector<Axis> tuned;     // the best combination of their values is looked for
};

// A study as its file says it (docs/study.md).
struct Design {
  std::filesystem::path file;
  std::string job;         // a configuration of `kith train` under all settings; empty: its defaults
  std::string baseline;    // the method whose loss the others must reach
  std::int64_t steps = 0;  // of the baseline's runs that have that loss
  std::vector<std::int64_t> seeds;
  std::vector<std::int64_t> tuning_seeds;  // the same as `seeds` where the file has none
  std::int64_t tuning_steps = 0;
  std::vector<Axis> common;
  std::vector<Method> methods;

  const Method& method(const std::string& name) const;
};

inline constexpr const char* kSteps = "train.steps";

// InputError with file, line, key and a way out: what is no TOML, an unknown section or key, a value that
// `kith train` would refuse, values that contradict each other or leave nothing to compare.
Design read_design(const std::filesystem::path& file);

}  // namespace kith::train::study
