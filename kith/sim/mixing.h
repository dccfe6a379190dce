#pragma once

#include <cstdint>
#include <vector>

#include "kith/sim/round_plan.h"

namespace kith::sim {

// What the network did, summed over a run.
struct Traffic {
  double channel_s = 0;  // worker-seconds in which a worker's channel carried something
  double nic_bytes = 0;  // over all NICs, one direction
};

// Buckets first .. end - 1.
struct BucketRange {
  std::size_t first = 0;
  std::size_t end = 0;
};

// The virtual network: one in-order channel for each worker, one NIC for each node and direction. An
// operation starts when the buckets it needs are published and the channels of its workers are free (between
// nodes, where buckets are at different rounds, as soon as they are published); it ends when its own time is
// over and every NIC it uses has carried it, after whatever came before. Not thread-safe.
class Mixing {
 public:
  Mixing(const Scenario& scenario, CostBook& book);

  // Carries out one component of a round for some neighbouring buckets. `when` (layout of block.h) holds when
  // each bucket was published and becomes when each worker's arrivals are there.
  void run(const RoundPlan& plan, const Component& component, BucketRange range, double* when);

  const Traffic& traffic() const { return traffic_; }
  void reset_traffic() { traffic_ = {}; }

 private:
  struct Waiting {
    double start;
    std::size_t op;  // groups first, then reads
  };

  void run_alone(const RoundPlan& plan, const GroupOp& op, BucketRange range, double* when);
  void run_together(const RoundPlan& plan, const Component& component, BucketRange range, double* when);
  double group_start(const RoundPlan& plan, const GroupOp& op, std::size_t bucket, const double* when) const;
  void finish_group(const RoundPlan& plan, const GroupOp& op, std::size_t bucket, double* when);
  void finish_read(const ReadOp& op, double start, std::size_t bucket, double* when);
  bool waits_for_channels(const GroupOp& op) const;
  // Queues at a NIC and returns when it has carried this.
  double carry(double& nic_free, double start, const Cost& cost);
  std::size_t at(Rank rank, std::size_t bucket) const;

  const graph::Shape placement_;
  const bool staggered_;
  const std::size_t buckets_;
  CostBook& book_;
  std::vector<double> channel_free_;  // by worker, padded to whole blocks
  std::vector<double> out_free_;      // by node
  std::vector<double> in_free_;
  std::vector<double> link_free_;  // by worker: reads inside its node
  std::vector<double> ready_;      // scratch by bucket
  std::vector<Waiting> waiting_;
  Traffic traffic_;
};

}  // namespace kith::sim
