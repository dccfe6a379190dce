#pragma once

#include <string>

#include "kith/plan/recommend.h"

namespace kith::plan {

// The chosen candidate as the world, algorithm, topology and wire of a training configuration (TOML).
std::string plan_toml(const Profile& profile, const Recommendation& recommendation);

}  // namespace kith::plan
