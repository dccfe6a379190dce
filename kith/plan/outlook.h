#pragma once

#include <string>
#include <vector>

#include "kith/plan/evaluate.h"

namespace kith::plan {

// For each of bandwidth, workers and spread: the nearest value at which the other answer (all-reduce or
// mixing) would be right, or that none within reach is. One sentence each.
std::vector<std::string> what_would_change(const Profile& profile, const SimulationOptions& simulation);

}  // namespace kith::plan
