#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kith::observe {

// Something went wrong, and what that cost.
struct Fault {
  double time = 0;
  std::int64_t step = 0;
  std::string text;
  std::string cost;
};

// Workers that were lost, late or failed, and interruptions after which the run went on, in the order of
// time; at most 200. `median_seconds`: of an iteration, which costs are measured against.
std::vector<Fault> faults_in(const std::filesystem::path& folder, double median_seconds);

}  // namespace kith::observe
