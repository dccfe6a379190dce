#pragma once

#include <string>

#include "kith/train/study/report.h"

namespace kith::train::study {

// Loss over the number of steps, a curve with error bars for each cell, the baseline's loss across.
std::string lengths_svg(const Report& report);

// Loss over the first number that is tuned (the best of what else is), a curve for each cell, the chosen one
// marked. Empty: nothing is tuned.
std::string tuning_svg(const Report& report);

}  // namespace kith::train::study
