#pragma once

#include <span>

#include "kith/comm/registry.h"

namespace kith::comm {

// The backends whose windows lie in an accelerator's memory; the same names in every build, with an obstacle
// in one that lacks them.
std::span<const Backend> device_backends();

}  // namespace kith::comm
