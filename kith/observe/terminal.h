#pragma once

#include <string>

#include "kith/observe/run_reader.h"

namespace kith::observe {

// The run at a moment, for a terminal of that many columns: plain lines. Of more than 16 workers the slowest
// are listed.
std::string terminal_text(const RunReader& run, double now, int columns = 100);

}  // namespace kith::observe
