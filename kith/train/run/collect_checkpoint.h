#pragma once

#include <filesystem>
#include <functional>

#include "kith/engine/world_parts.h"
#include "kith/train/checkpoint_folder.h"
#include "kith/train/run/parts.h"
#include "kith/train/run/run_folder.h"

namespace kith::train {

struct Collecting {
  const engine::WorldParts& world;
  const RunFolder& folder;  // this worker's part
  const Parts& parts;
  // Called on rank 0 with the checkpoint that was found; its InputError is everybody's.
  std::function<void(const Manifest&)> check;
};

// Collective, before the run goes on. The parts tell each other what they have of the newest checkpoint, and
// each gets what its workers need of it from a part that has it, over the transport, with their metrics.
// Returns the checkpoint's folder in this part. InputError on every worker when a part holds another run, or
// when a file is nowhere to be found as it was saved: it names the worker, the host and the file, and the
// newest older checkpoint that is complete. Waits an hour at most; a lost worker is noticed at once.
std::filesystem::path collect_checkpoint(const Collecting& collecting);

}  // namespace kith::train
