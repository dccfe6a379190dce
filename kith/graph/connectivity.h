#pragma once

#include <vector>

#include "kith/graph/schedule.h"

namespace kith::graph {

// The workers that cannot both hear from rank 0 and be heard by it along the edges of one whole period (the
// union of its rounds); ascending. Empty when the schedule is connected, and strongly connected when it is
// directed.
std::vector<Rank> cut_off(const Schedule& schedule);

}  // namespace kith::graph
