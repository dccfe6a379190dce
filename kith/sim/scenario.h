#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kith/base/dtype.h"
#include "kith/graph/schedule.h"
#include "kith/sim/job.h"
#include "kith/sim/network.h"

namespace kith::sim {

// Where a bucket's mix and step happen.
//   step      in step(), bucket after bucket once backward is done: kith's order
//   backward  as soon as the bucket's gradient is there, inside backward: the order of arXiv 2410.11998
enum class MixAt { step, backward };

// What all-reduce may hide behind: the rest of backward, as data-parallel wrappers do, or nothing.
enum class Overlap { backward, none };

// One simulated run. The fields up to `network` describe the machine and the job, the rest the way it is
// trained.
struct Scenario {
  graph::Shape placement = graph::Shape::single_node(1);  // who shares a NIC
  Job job;
  Network network;

  // Null: all-reduce of gradients. REQUIRES: as many workers as the placement.
  std::shared_ptr<const graph::Schedule> schedule;
  Collective collective = Collective::three_hop;  // of groups of more than two, and of all-reduce
  DType wire = DType::f32;
  double message_share = 0;  // of a bucket's fp32 bytes that a message has, where a codec says; 0: as `wire`
  int every = 1;             // mix in every so many steps; all-reduce ignores it
  // By bucket: rounds that it is ahead of the schedule (Note [Staggered buckets] in graph/stagger.h). Empty:
  // all are at the same round.
  std::vector<std::int64_t> ahead;
  MixAt mix_at = MixAt::step;
  Overlap overlap = Overlap::backward;     // all-reduce
  std::vector<double> all_reduce_seconds;  // by bucket: measured instead of modelled; empty: modelled

  int iterations = 500;  // counted, after the warm-up
  int warm_up = 50;
  std::uint64_t seed = 0;
};

// InputError or Bug when a scenario cannot run: sizes that disagree, rates that are not positive, nothing to
// count.
void check(const Scenario& scenario);

// Bytes that a bucket occupies on the wire.
double wire_bytes(const Scenario& scenario, const Bucket& bucket);

// The all-reduce of each bucket over all workers: as given, or modelled.
std::vector<Cost> all_reduce_costs(const Scenario& scenario);

}  // namespace kith::sim
