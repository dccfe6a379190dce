#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kith/train/run/summary.h"

namespace kith::cli {

struct CurvePoint {
  double seconds = 0;  // of training
  double loss = 0;     // validation
};

// How one method of the demo went.
struct DemoResult {
  std::string name;   // "allreduce": its run folder, and its key in demo.json
  std::string title;  // "all-reduce"
  train::Summary summary;
  std::vector<CurvePoint> curve;
};

struct DemoLink {
  std::string rate;            // "200mbit"; empty: no link, workers shared memory
  double bits_per_second = 0;  // of each host, in each direction
  int hosts = 1;
};

// From a run folder. Error when the run left no numbers there.
DemoResult read_result(const std::string& name, const std::string& title,
                       const std::filesystem::path& folder);

std::string demo_json(const DemoLink& link, const std::vector<DemoResult>& results);

struct RecordedDemo {
  DemoLink link;
  std::vector<DemoResult> results;
};

// What demo_json wrote. InputError when the file is nothing of the kind.
RecordedDemo read_demo(const std::filesystem::path& file);

// Loss over time, a curve per result: for a terminal, and as SVG.
std::string plot_text(const std::vector<DemoResult>& results);
std::string plot_svg(const std::vector<DemoResult>& results, const std::string& title);

}  // namespace kith::cli
