#pragma once

#include <string>

#include "kith/comm/transport.h"

namespace kith::cli {

// The shape that follows from where the workers are, one node per machine, as world.nodes has it: "2,2".
// Empty, for one node, when all are on one machine or the workers of a machine do not follow each other.
std::string nodes_of(const comm::Transport& transport);

}  // namespace kith::cli
