#include "kith/engine/model_cut.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "kith/graph/stagger.h"

namespace kith::engine {
namespace {

// What the fullest turn may have over the mean before segments are split.
constexpr double kUneven = 1.1;

std::size_t bucket_bytes(std::span<const Segment> segments, const EngineOptions& options,
                         std::int64_t parts) {
  double all = 0;
  for (const Segment& segment : segments)
    all += static_cast<double>(segment.count * size_of(segment.type));
  return static_cast<std::size_t>(
      graph::staggered_bucket_bytes(parts, all, static_cast<double>(options.bucket_bytes)));
}

// With the fullest turn's bytes over the mean.
std::pair<ModelCut, double> staggered(std::vector<BucketPlan> plans, std::int64_t turns) {
  std::vector<double> bytes;
  for (const BucketPlan& plan : plans)
    bytes.push_back(static_cast<double>(plan.count * size_of(plan.type)));
  std::vector<std::int64_t> ahead = graph::stagger(turns, bytes);
  const double fullest = graph::fullest_turn(turns, bytes, ahead);
  return {{std::move(plans), std::move(ahead)}, fullest};
}

}  // namespace

ModelCut cut_model(std::span<const Segment> segments, const EngineOptions& options,
                   const graph::Schedule& schedule, std::span<const int> machines, bool exchanges) {
  const std::int64_t turns = exchanges && options.stagger ? graph::turns_of(schedule) : 1;
  const std::size_t block = wire_block(options);
  if (!options.cut.empty()) return staggered(plans_of(options.cut, segments, block), turns).first;
  const std::size_t bytes = bucket_bytes(
      segments, options, averages_gradients(options) ? std::max(graph::kAllReduceParts, turns) : turns);
  auto [whole, fullest] = staggered(cut_buckets(segments, bytes, block), turns);
  const bool links = std::ranges::adjacent_find(machines, std::not_equal_to<>()) != machines.end();
  if (fullest <= kUneven || options.layout == Layout::alternating || !links ||
      !graph::crosses_nodes(schedule)) {
    return whole;
  }
  auto [even, fullest_of_even] = staggered(cut_evenly(segments, bytes, block), turns);
  return fullest_of_even < fullest ? even : whole;
}

}  // namespace kith::engine
