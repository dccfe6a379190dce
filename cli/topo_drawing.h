#pragma once

#include <iosfwd>

#include "kith/graph/schedule.h"

namespace kith::cli {

// Draws the rounds of a period for a terminal. A round of groups is one line, a letter per group (capitals
// where two exchange with unequal weights, a dot for an idle worker); any other round is a map of the mixing
// matrix. Says so instead where there are too many workers to draw.
void draw_rounds(std::ostream& out, const graph::Schedule& schedule);

}  // namespace kith::cli
