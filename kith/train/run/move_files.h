#pragma once

#include <string>
#include <vector>

#include "kith/engine/world_parts.h"
#include "kith/train/run/held_files.h"

namespace kith::train {

struct MoveOptions {
  std::string name;              // the same on all workers, new in the run
  std::filesystem::path folder;  // of this worker's part
  Deadline deadline{};           // for all of it
};

// Does this worker's share of the moves, over the transport, in pieces: sends what lies in its part, and
// writes what it gets, each file whole or not at all. The workers that made the parts do this, all with the
// same list. A file that cannot be read or written does not stop the other moves: returns what went wrong
// first, or nothing. Error when the other worker is lost or the deadline passes.
std::string move_files(const engine::WorldParts& world, const std::vector<Move>& moves,
                       const MoveOptions& options);

}  // namespace kith::train
