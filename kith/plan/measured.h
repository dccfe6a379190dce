#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kith/graph/shape.h"
#include "kith/sim/network.h"

namespace kith::plan {

// What was measured of one bucket, in backward order: samples in seconds.
struct MeasuredBucket {
  double bytes = 0;
  std::vector<double> backward_s;
  std::vector<double> step_s;
};

// What a profile is made of when it is measured.
struct Measured {
  std::string name;
  std::string about;
  graph::Shape nodes = graph::Shape::single_node(1);
  std::vector<double> forward_s;
  std::vector<MeasuredBucket> buckets;
  // By worker, in rank order: mean seconds of forward and backward. Empty: all as the samples.
  std::vector<double> compute_s;
  double batch_cv = 0;  // of a whole iteration's forward and backward; the samples have it taken out
  std::optional<sim::Link> inside;
  std::optional<sim::Link> between;
  std::optional<double> nic_bytes_per_s;
  double message_s_per_byte = 0;  // sim::Job has the meaning; 0: nothing to speak of
  double memory_bytes_per_s = 0;
};

// Workers whose times differ by less than this are taken for equal: the profile then holds their mean.
inline constexpr double kEvenWorkers = 1.1;

// How many times as long each worker takes as the first one, whose times the samples are; empty where they
// are equal.
std::vector<double> slowness_of(const Measured& measured);

// The file that parse_profile reads. InputError when something is missing or not positive.
std::string profile_json(const Measured& measured);

}  // namespace kith::plan
