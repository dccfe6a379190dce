#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "kith/sim/scenario.h"

namespace kith::sim {

// The costs of the kinds of operation that a run meets, by bucket. A regular schedule meets a handful.
class CostBook {
 public:
  explicit CostBook(const Scenario& scenario) : scenario_(scenario) {}

  int of_group(const GroupShape& group);
  int of_read(bool inside);
  // By bucket; valid until the next new kind.
  const Cost* costs(int kind) const { return costs_[static_cast<std::size_t>(kind)].data(); }

 private:
  int add(const GroupShape& key, bool reads);

  const Scenario& scenario_;
  std::map<std::pair<GroupShape, bool>, int> kinds_;
  std::vector<std::vector<Cost>> costs_;
};

// Members of a group that are neighbouring lanes of one block.
struct LaneRun {
  std::int32_t block = 0;
  std::int32_t first = 0;
  std::int32_t lanes = 0;
};

// A group that averages.
struct GroupOp {
  int cost = 0;
  std::size_t first_run = 0, end_run = 0;
  std::size_t first_node = 0, end_node = 0;  // spanned nodes; none when it stays inside one
};

// One worker that reads one other.
struct ReadOp {
  int cost = 0;
  Rank source = 0;
  Rank reader = 0;
  bool crosses = false;
};

// Operations that must be seen together: they share workers or a NIC. Components are independent of each
// other, so one is finished, and the workers that need nothing more have their next iteration, before the
// next one is looked at.
struct Component {
  std::size_t first_group = 0, end_group = 0;
  std::size_t first_read = 0, end_read = 0;
  std::size_t first_block = 0, end_block = 0;  // blocks that are complete after this component
  bool contended = false;                      // two operations may meet at a NIC: order matters
};

// Round t of a schedule for all workers, cut into components.
struct RoundPlan {
  std::vector<LaneRun> runs;
  std::vector<int> nodes;
  std::vector<GroupOp> groups;
  std::vector<ReadOp> reads;
  std::vector<std::size_t> blocks;
  std::vector<Component> components;  // at least one
};

RoundPlan plan_round(const graph::Schedule& schedule, std::int64_t t, const graph::Shape& placement,
                     CostBook& book);

}  // namespace kith::sim
