#pragma once

#include <functional>

#include "kith/launch/world.h"

namespace kith::launch {

// Runs `body` once per worker, each on a thread of this process, and returns when all have ended. An
// exception of a body is rethrown here, that of the lowest rank; a body that leaves early is lost to the
// others, who notice at once. `log`: standard error where it is null.
void run_threads(int workers, const std::function<void(const World& world)>& body, Log* log = nullptr);

}  // namespace kith::launch
