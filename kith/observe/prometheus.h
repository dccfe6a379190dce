#pragma once

#include <string>

#include "kith/observe/run_reader.h"

namespace kith::observe {

// The run as Prometheus reads it (text format 0.0.4): gauges and counters by worker, and by peer.
std::string prometheus_text(const RunReader& run, double now);

}  // namespace kith::observe
