#pragma once

#include "kith/launch/world.h"
#include "kith/train/run/parts.h"
#include "kith/train/run/run_folder.h"

namespace kith::train {

// At the end of a run of several parts, on every worker that is left, once it has written the last line of
// its metrics and its trace: these come from all parts into the part of the lowest worker that is left, where
// the model and the summary are. True on that worker. What does not come is told in the log and stays where
// it is: this never fails a run. Waits a few minutes at most for somebody who is alive. `parts` has all
// workers, those that came later too (known_parts).
bool gather_parts(const launch::World& world, const RunFolder& folder, const Parts& parts);

}  // namespace kith::train
