#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kith/graph/shape.h"
#include "kith/sim/job.h"
#include "kith/sim/network.h"

namespace kith::plan {

// A fixed global batch: with n workers, forward and backward take (floor^p + (work / n)^p)^(1/p), where
// `work` is such that the profile's own number of workers takes the profile's own times.
struct StrongScaling {
  double floor_s = 0;  // what a small local batch does not get under
  double exponent = 1;
};

// A job and a cluster, measured or written by hand. docs/planning.md describes the file.
struct Profile {
  std::string name;
  graph::Shape nodes = graph::Shape::single_node(1);  // where it was measured
  sim::Job job;
  sim::Network network;
  // Links that were not measured, since the profile's world has none of them: a single machine's between
  // machines, single workers' inside one. The network holds stand-ins.
  bool between_known = true;
  bool inside_known = true;
  double memory_bytes_per_s = 0;        // 0: not known
  std::optional<StrongScaling> strong;  // none: the local batch is fixed
};

// The file's message_cost is the time of so many bytes.
inline constexpr double kMessageCostBytes = 1e6;

// InputError with the file and the JSON path of whatever is wrong.
Profile parse_profile(std::string_view json, const std::string& file);
Profile read_profile(const std::string& path);

// The profile's job on another shape: strong scaling applied. InputError when per-worker slowness does not
// fit, or when the shape has links that the profile does not know.
Profile with_nodes(const Profile& profile, const graph::Shape& nodes);
// The profile with another network between its nodes: the NIC at this rate, one flow in the proportion it had
// to it.
Profile with_link(const Profile& profile, double nic_bytes_per_s);
// The profile with batches that vary by this standard deviation over mean, instead of whatever it says.
Profile with_batch_spread(const Profile& profile, double cv);

}  // namespace kith::plan
