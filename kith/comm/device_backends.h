#pragma once

#include <span>

#include "kith/comm/registry.h"

namespace kith::comm {

// The backends whose windows lie in an accelerator's memory, as far as this build has any.
std::span<const Backend> device_backends();

}  // namespace kith::comm
