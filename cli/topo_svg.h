#pragma once

#include <string>

#include "kith/graph/schedule.h"

namespace kith::cli {

// A picture of a period: one panel per round with the workers on a circle, gathered by node. Groups are
// filled shapes, pairs and neighbours are lines (as thick as their weight), directed edges have arrows.
std::string svg_of(const graph::Schedule& schedule);

}  // namespace kith::cli
