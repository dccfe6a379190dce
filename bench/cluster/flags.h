#pragma once

#include <string>
#include <vector>

#include "bench/cluster/contest.h"
#include "bench/common/report.h"

namespace kith::bench {

struct Rate {
  std::string text;  // as the lab takes it
  double bits_per_second = 0;
};

// What to measure, from the command line.
struct Flags {
  Options common;
  std::vector<Setup> setups;
  std::vector<Rate> rates;
  std::vector<std::string> modes;  // always with none and ddp
  int blocks = 7;
  std::string csv;  // a line per block; empty: none
  ContestOptions contest;
};

// Prints help or a usage error and exits the process (0 or 2) when it must.
Flags parse_flags(int argc, char** argv);

}  // namespace kith::bench
