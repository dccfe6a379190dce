#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kith/train/config/job.h"

namespace kith::train {

// One value given outside the file: "optimizer.beta1=0.95", and what to call it in an error ("--set",
// "--workers").
struct Setting {
  std::string text;
  std::string place;
};

struct JobSources {
  std::vector<Setting> defaults = {};  // in order, under the file
  std::string file;                    // TOML; empty: start from the defaults
  std::vector<Setting> settings;       // in order, over the file
};

struct ReadJob {
  Job job;
  Origins origins;
};

// The job's own defaults, those given, then the file, then the settings. InputError with file, line, key and
// the nearest valid key for: a file that cannot be read or is not TOML, a key or section that does not exist,
// a wrong type, a value out of range, values that contradict each other. Paths become absolute: those in the
// file count from the file's folder, others from the current one.
ReadJob read_job(const JobSources& sources);

// For a run that goes on: InputError for a setting whose key must stay as it was.
void check_resumable(const std::vector<Setting>& settings);

}  // namespace kith::train
