#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/cluster/contest.h"
#include "bench/cluster/flags.h"
#include "bench/common/report.h"

namespace kith::bench {

// The blocks of one set-up at one rate.
using Blocks = std::map<std::string, std::vector<Block>>;  // by mode

// What one mode comes to beside the others. Ratios are medians over blocks that ran one after the other.
struct Row {
  std::string mode;
  Summary ms;
  double over_ddp = 0;  // speed over DDP's
  double to_local = 0;  // time over local-only's
  double to_torch = 0;  // time over that of PyTorch alone; 0 where that was not measured
  double sent = 0;      // bytes per host and iteration
  double from_ledgers = 0;
  double in_kernel = 0;  // shares of the machine's processors
  double idle = 0;
  double hidden =
      0;  // share of the time that the bytes need on the link by which the iteration did not get longer
};

// REQUIRES: blocks of none and ddp, as many as of the others.
std::vector<Row> rows_of(const std::vector<std::string>& modes, const Blocks& blocks,
                         double link_bytes_per_second);

void print(const std::vector<Row>& rows);

}  // namespace kith::bench
