#include "kith/sim/mixing.h"

#include <algorithm>
#include <functional>

#include "kith/sim/block.h"

namespace kith::sim {
namespace {

double workers_of(const RoundPlan& plan, const GroupOp& op) {
  int workers = 0;
  for (std::size_t r = op.first_run; r < op.end_run; ++r)
    workers += plan.runs[r].lanes;
  return workers;
}

}  // namespace

Mixing::Mixing(const Scenario& scenario, CostBook& book)
    : placement_(scenario.placement),
      staggered_(std::ranges::adjacent_find(scenario.ahead, std::not_equal_to<>()) != scenario.ahead.end()),
      buckets_(scenario.job.buckets.size()),
      book_(book),
      channel_free_((static_cast<std::size_t>(placement_.workers()) + kLanes - 1) / kLanes * kLanes, 0.0),
      out_free_(static_cast<std::size_t>(placement_.nodes()), 0.0),
      in_free_(out_free_),
      link_free_(channel_free_.size(), 0.0),
      ready_(buckets_) {}

std::size_t Mixing::at(Rank rank, std::size_t bucket) const {
  const auto worker = static_cast<std::size_t>(rank);
  return (worker / kLanes * buckets_ + bucket) * kLanes + worker % kLanes;
}

double Mixing::carry(double& nic_free, double start, const Cost& cost) {
  nic_free = std::max(nic_free, start) + cost.nic_seconds;
  traffic_.nic_bytes += cost.nic_bytes / 2;  // counted at the way out and at the way in
  return nic_free;
}

void Mixing::run(const RoundPlan& plan, const Component& component, BucketRange range, double* when) {
  if (component.contended || component.first_read != component.end_read) {
    run_together(plan, component, range, when);
    return;
  }
  for (std::size_t g = component.first_group; g < component.end_group; ++g)
    run_alone(plan, plan.groups[g], range, when);
}

// Buckets at different rounds go to different nodes, each over a connection of its own: such a message waits
// for the NICs, not for what its worker has under way elsewhere.
bool Mixing::waits_for_channels(const GroupOp& op) const {
  return !staggered_ || op.first_node == op.end_node;
}

// Nobody else is at this group's NICs in this round: the buckets in one go.
void Mixing::run_alone(const RoundPlan& plan, const GroupOp& op, BucketRange range, double* when) {
  const Cost* costs = book_.costs(op.cost);
  const bool in_order = waits_for_channels(op);
  double free = 0;
  double channels = 0;
  std::fill(ready_.begin(), ready_.end(), 0.0);
  for (std::size_t r = op.first_run; r < op.end_run; ++r) {
    const LaneRun run = plan.runs[r];
    const double* channel = channel_free_.data() + static_cast<std::size_t>(run.block) * kLanes + run.first;
    for (int lane = 0; lane < run.lanes; ++lane)
      channels = std::max(channels, channel[lane]);
    const double* published = when + static_cast<std::size_t>(run.block) * buckets_ * kLanes + run.first;
    for (std::size_t b = range.first; b < range.end; ++b) {
      double latest = ready_[b];
      for (int lane = 0; lane < run.lanes; ++lane)
        latest = std::max(latest, published[b * kLanes + static_cast<std::size_t>(lane)]);
      ready_[b] = latest;
    }
  }
  if (in_order) free = channels;
  double busy = 0;
  for (std::size_t b = range.first; b < range.end; ++b) {
    const double start = std::max(free, ready_[b]);
    free = start + costs[b].seconds;
    for (std::size_t k = op.first_node; k < op.end_node; ++k) {
      const auto node = static_cast<std::size_t>(plan.nodes[k]);
      free =
          std::max({free, carry(out_free_[node], start, costs[b]), carry(in_free_[node], start, costs[b])});
    }
    busy += std::max(0.0, free - std::max(start, channels));
    channels = std::max(channels, free);
    ready_[b] = free;
  }
  traffic_.channel_s += busy * workers_of(plan, op);
  for (std::size_t r = op.first_run; r < op.end_run; ++r) {
    const LaneRun run = plan.runs[r];
    double* channel = channel_free_.data() + static_cast<std::size_t>(run.block) * kLanes + run.first;
    std::fill(channel, channel + run.lanes, channels);
    double* arrival = when + static_cast<std::size_t>(run.block) * buckets_ * kLanes + run.first;
    for (std::size_t b = range.first; b < range.end; ++b)
      std::fill(arrival + b * kLanes, arrival + b * kLanes + run.lanes, ready_[b]);
  }
}

double Mixing::group_start(const RoundPlan& plan, const GroupOp& op, std::size_t bucket,
                           const double* when) const {
  const bool in_order = waits_for_channels(op);
  double start = 0;
  for (std::size_t r = op.first_run; r < op.end_run; ++r) {
    const LaneRun run = plan.runs[r];
    const auto block = static_cast<std::size_t>(run.block);
    for (auto lane = static_cast<std::size_t>(run.first);
         lane < static_cast<std::size_t>(run.first + run.lanes); ++lane) {
      start = std::max(start, when[(block * buckets_ + bucket) * kLanes + lane]);
      if (in_order) start = std::max(start, channel_free_[block * kLanes + lane]);
    }
  }
  return start;
}

void Mixing::finish_group(const RoundPlan& plan, const GroupOp& op, std::size_t bucket, double* when) {
  const double start = group_start(plan, op, bucket, when);
  const Cost& cost = book_.costs(op.cost)[bucket];
  double end = start + cost.seconds;
  for (std::size_t k = op.first_node; k < op.end_node; ++k) {
    const auto node = static_cast<std::size_t>(plan.nodes[k]);
    end = std::max({end, carry(out_free_[node], start, cost), carry(in_free_[node], start, cost)});
  }
  for (std::size_t r = op.first_run; r < op.end_run; ++r) {
    const LaneRun run = plan.runs[r];
    const auto block = static_cast<std::size_t>(run.block);
    for (auto lane = static_cast<std::size_t>(run.first);
         lane < static_cast<std::size_t>(run.first + run.lanes); ++lane) {
      double& channel = channel_free_[block * kLanes + lane];
      traffic_.channel_s += std::max(0.0, end - std::max(start, channel));
      channel = std::max(channel, end);
      when[(block * buckets_ + bucket) * kLanes + lane] = end;
    }
  }
}

// The reads of a bucket start together. Those from inside the node follow each other over the reader's own
// link; those from other nodes meet at the NICs. The bucket is complete, and the channel free, when the last
// one ends.
void Mixing::finish_read(const ReadOp& op, double start, std::size_t bucket, double* when) {
  const auto reader = static_cast<std::size_t>(op.reader);
  const Cost& cost = book_.costs(op.cost)[bucket];
  double end = 0;
  if (op.crosses) {
    const auto source_node = static_cast<std::size_t>(placement_.node_of(op.source));
    const auto reader_node = static_cast<std::size_t>(placement_.node_of(op.reader));
    end = std::max({start + cost.seconds, carry(out_free_[source_node], start, cost),
                    carry(in_free_[reader_node], start, cost)});
  } else {
    end = link_free_[reader] = std::max(link_free_[reader], start) + cost.seconds;
  }
  double& channel = channel_free_[reader];
  traffic_.channel_s += std::max(0.0, end - std::max(start, channel));
  channel = std::max(channel, end);
  double& arrival = when[at(op.reader, bucket)];
  arrival = std::max(arrival, end);
}

// Bucket after bucket, and within a bucket first come, first served: all starts are read before any arrival
// is written.
void Mixing::run_together(const RoundPlan& plan, const Component& component, BucketRange range,
                          double* when) {
  const std::size_t groups = component.end_group - component.first_group;
  for (std::size_t b = range.first; b < range.end; ++b) {
    waiting_.clear();
    for (std::size_t g = 0; g < groups; ++g)
      waiting_.push_back({group_start(plan, plan.groups[component.first_group + g], b, when), g});
    for (std::size_t r = component.first_read; r < component.end_read; ++r) {
      const ReadOp& op = plan.reads[r];
      const double published = when[at(op.source, b)];
      waiting_.push_back({std::max(published, channel_free_[static_cast<std::size_t>(op.reader)]),
                          groups + r - component.first_read});
    }
    if (component.contended) {
      std::sort(waiting_.begin(), waiting_.end(), [](const Waiting& x, const Waiting& y) {
        return x.start < y.start || (x.start == y.start && x.op < y.op);
      });
    }
    for (const Waiting& next : waiting_) {
      if (next.op < groups)
        finish_group(plan, plan.groups[component.first_group + next.op], b, when);
      else
        finish_read(plan.reads[component.first_read + next.op - groups], next.start, b, when);
    }
  }
}

}  // namespace kith::sim
