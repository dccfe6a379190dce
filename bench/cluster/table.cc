#include "bench/cluster/table.h"

#include <algorithm>
#include <cstdio>

namespace kith::bench {
namespace {

double median_ratio(const std::vector<Block>& numerator, const std::vector<Block>& denominator) {
  std::vector<double> ratios;
  for (std::size_t b = 0; b < numerator.size(); ++b)
    ratios.push_back(numerator[b].ms() / denominator[b].ms());
  return summarise(ratios).median;
}

double median_of(const std::vector<Block>& blocks, double Block::*member) {
  std::vector<double> values;
  for (const Block& block : blocks)
    values.push_back(block.*member);
  return summarise(values).median;
}

}  // namespace

std::vector<Row> rows_of(const std::vector<std::string>& modes, const Blocks& blocks,
                         double link_bytes_per_second) {
  std::vector<Row> rows;
  const std::vector<Block>& local = blocks.at("none");
  for (const std::string& mode : modes) {
    const std::vector<Block>& own = blocks.at(mode);
    Row row;
    row.mode = mode;
    std::vector<double> times;
    for (const Block& block : own)
      times.push_back(block.ms());
    row.ms = summarise(times);
    row.over_ddp = median_ratio(blocks.at("ddp"), own);
    row.to_local = median_ratio(own, local);
    if (blocks.contains("torch")) row.to_torch = median_ratio(own, blocks.at("torch"));
    row.sent = median_of(own, &Block::sent);
    row.from_ledgers = median_of(own, &Block::from_ledgers);
    row.in_kernel = median_of(own, &Block::in_kernel);
    row.idle = median_of(own, &Block::idle);
    const double travel_ms = row.sent / link_bytes_per_second * 1e3;
    const double longer_ms = (row.to_local - 1) * row.ms.median / row.to_local;
    row.hidden = std::clamp(1 - longer_ms / travel_ms, 0.0, 1.0);
    rows.push_back(row);
  }
  return rows;
}

void print(const std::vector<Row>& rows) {
  std::printf(
      "  mode        ms per iteration [p10, p90]   over DDP  to local  to torch   MB per host: sent  by "
      "ledger  "
      " hidden  kernel  idle\n");
  for (const Row& row : rows) {
    const bool local = row.mode == "none";
    std::printf("  %-10s %8.1f [%7.1f, %7.1f]     %7.2fx  %7.3f   %7.3f           %8.2f  %9.2f   ",
                local ? "local-only" : row.mode.c_str(), row.ms.median, row.ms.low, row.ms.high, row.over_ddp,
                row.to_local, row.to_torch, row.sent / 1e6, row.from_ledgers / 1e6);
    std::printf(local ? "     -" : "%5.0f%%", 100 * row.hidden);
    std::printf("  %5.0f%% %4.0f%%\n", 100 * row.in_kernel, 100 * row.idle);
  }
}

}  // namespace kith::bench
