#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kith/plan/evaluate.h"

namespace kith::plan {

// What a sweep varies: the NIC's rate, the number of workers, or how much batches vary.
enum class Swept { bandwidth, workers, spread };

std::string_view name_of(Swept swept);

struct Axis {
  Swept swept = Swept::bandwidth;
  std::vector<double> values;       // bytes per second, workers, standard deviation over mean
  std::vector<std::string> labels;  // one for each
};

// "bandwidth=1gbit..100gbit", "workers=8..256", "spread=0..0.4", each with ":POINTS" behind it if wanted.
// Bandwidths are spaced evenly in their logarithm, workers double. InputError naming `place` otherwise.
Axis parse_axis(std::string_view text, std::string_view place);

// The world that an axis' value stands for: workers keep the profile's number for each node (one node holds
// fewer).
Profile at(const Profile& profile, const Axis& axis, std::size_t index);

struct Cell {
  double speed_up = 1;   // the best topology over all-reduce
  std::string topology;  // which
  double all_reduce_s = 0;
  double mixing_s = 0;
};

struct Map {
  Axis across;
  Axis down;
  std::vector<Cell> cells;  // row by row, `down` outside
  const Cell& cell(std::size_t row, std::size_t column) const {
    return cells[row * across.values.size() + column];
  }
};

// REQUIRES: the axes vary different things (InputError otherwise).
Map sweep(const Profile& profile, const Axis& across, const Axis& down, const SimulationOptions& simulation);

}  // namespace kith::plan
