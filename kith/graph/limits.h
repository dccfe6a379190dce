#pragma once

namespace kith::graph {

// The largest world that a user may ask for; schedules themselves know no limit.
inline constexpr int kMostWorkers = 4096;

}  // namespace kith::graph
