#include "kith/sim/scenario.h"

#include <cmath>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::sim {
namespace {

void check_link(double latency_s, double bytes_per_s, std::string_view name) {
  if (!(latency_s >= 0) || !std::isfinite(latency_s))
    throw InputError(cat("latency ", latency_s, " s"), name, "a latency is finite and not negative");
  if (!(bytes_per_s > 0))
    throw InputError(cat("bandwidth ", bytes_per_s, " B/s"), name, "a bandwidth is positive");
}

}  // namespace

void check(const Scenario& scenario) {
  const auto workers = static_cast<std::size_t>(scenario.placement.workers());
  if (scenario.schedule) {
    KITH_CHECK_EQ(scenario.schedule->workers(), scenario.placement.workers(), "schedule and placement");
  }
  if (scenario.job.buckets.empty()) throw InputError("no buckets", "job", "a job has at least one bucket");
  if (!scenario.job.slowness.empty() && scenario.job.slowness.size() != workers) {
    throw InputError(cat(scenario.job.slowness.size(), " slowness factors for ", workers, " workers"), "job",
                     "give one for each worker, or none");
  }
  for (const double factor : scenario.job.slowness) {
    if (!(factor > 0) || !std::isfinite(factor))
      throw InputError(cat("slowness ", factor), "job", "a factor is positive");
  }
  if (!scenario.all_reduce_seconds.empty())
    KITH_CHECK_EQ(scenario.all_reduce_seconds.size(), scenario.job.buckets.size(),
                  "one all-reduce for each bucket");
  check_link(scenario.network.inside.latency_s, scenario.network.inside.bytes_per_s, "links inside a node");
  check_link(scenario.network.between.latency_s, scenario.network.between.bytes_per_s, "links between nodes");
  check_link(0, scenario.network.nic_bytes_per_s, "NIC");
  if (!scenario.ahead.empty()) {
    KITH_CHECK_EQ(scenario.ahead.size(), scenario.job.buckets.size(), "rounds ahead, by bucket");
  }
  if (scenario.iterations < 1 || scenario.warm_up < 0 || scenario.every < 1) {
    throw InputError(
        cat(scenario.iterations, " iterations after ", scenario.warm_up, ", a mix every ", scenario.every),
        "scenario", "count at least one iteration, and mix every 1 or more");
  }
}

double wire_bytes(const Scenario& scenario, const Bucket& bucket) {
  if (scenario.message_share > 0) return bucket.bytes * scenario.message_share;
  const std::size_t block = block_of(scenario.wire);
  return bucket.bytes * static_cast<double>(bytes_of(scenario.wire, block)) /
         static_cast<double>(bytes_of(DType::f32, block));
}

std::vector<Cost> all_reduce_costs(const Scenario& scenario) {
  const graph::Shape& placement = scenario.placement;
  GroupShape everybody{placement.workers(), placement.nodes(), placement.workers(), 0};
  for (int node = 0; node < placement.nodes(); ++node) {
    everybody.least = std::min(everybody.least, placement.size_of(node));
    everybody.most = std::max(everybody.most, placement.size_of(node));
  }
  std::vector<Cost> costs;
  for (const Bucket& bucket : scenario.job.buckets) {
    costs.push_back(
        group_cost(scenario.network, scenario.collective, everybody, wire_bytes(scenario, bucket)));
    if (!scenario.all_reduce_seconds.empty())
      costs.back().seconds = scenario.all_reduce_seconds[costs.size() - 1];
  }
  return costs;
}

}  // namespace kith::sim
