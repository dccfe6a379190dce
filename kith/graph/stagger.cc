#include "kith/graph/stagger.h"

#include <algorithm>
#include <numeric>

#include "kith/base/check.h"

namespace kith::graph {
namespace {

constexpr std::int64_t kMostTurns = 8;
constexpr double kLeastBytes = 1 << 20;

}  // namespace

std::int64_t turns_of(const Schedule& schedule) {
  return std::min(schedule.period(), kMostTurns);
}

bool crosses_nodes(const Schedule& schedule) {
  const Shape& shape = schedule.shape();
  for (std::int64_t turn = 0; turn < turns_of(schedule); ++turn) {
    for (Rank worker = 0; worker < schedule.workers(); ++worker) {
      for (Rank reader : readers_of(schedule.round(worker, turn), worker))
        if (!shape.same_node(worker, reader)) return true;
    }
  }
  return false;
}

// The largest first, each to the turn that has the least so far.
std::vector<std::int64_t> stagger(std::int64_t turns, std::span<const double> bucket_bytes) {
  KITH_CHECK_GE(turns, 1, "turns");
  std::vector<std::size_t> order(bucket_bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bucket_bytes[a] > bucket_bytes[b]; });
  std::vector<double> filled(static_cast<std::size_t>(turns), 0.0);
  std::vector<std::int64_t> ahead(bucket_bytes.size());
  for (std::size_t bucket : order) {
    const auto least = std::min_element(filled.begin(), filled.end());
    ahead[bucket] = least - filled.begin();
    *least += bucket_bytes[bucket];
  }
  return ahead;
}

double fullest_turn(std::int64_t turns, std::span<const double> bucket_bytes,
                    std::span<const std::int64_t> ahead) {
  std::vector<double> filled(static_cast<std::size_t>(turns), 0.0);
  for (std::size_t b = 0; b < ahead.size(); ++b)
    filled[static_cast<std::size_t>(ahead[b])] += bucket_bytes[b];
  const double all = std::accumulate(filled.begin(), filled.end(), 0.0);
  return all > 0 ? *std::max_element(filled.begin(), filled.end()) * static_cast<double>(turns) / all : 1;
}

double staggered_bucket_bytes(std::int64_t turns, double model_bytes, double wanted) {
  if (turns == 1) return wanted;
  return std::min(wanted, std::max(kLeastBytes, model_bytes / static_cast<double>(turns)));
}

}  // namespace kith::graph
