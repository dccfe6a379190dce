#pragma once

#include <string>

#include "kith/plan/sweep.h"

namespace kith::cli {

// The map as a heat map: blue where a topology wins, red where all-reduce does, white where they are even.
std::string svg_of(const plan::Map& map, const std::string& title);

}  // namespace kith::cli
