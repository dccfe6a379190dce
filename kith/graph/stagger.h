#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kith/graph/schedule.h"

namespace kith::graph {

// Note [Staggered buckets]
//
// In most schedules that change from round to round, so does what a worker sends over the slow links: in
// `aer` a node's model crosses in about every second round, in `exp` over nodes of several workers the first
// rounds stay inside. A model of which all parts are at the same round then has nothing to send in one
// iteration and too much in the next. Parts are mixed each by itself, so they need not be at the same round:
// bucket b takes round t + ahead[b] in step t. Every bucket still sees the rounds in their order, hence
// contracts as before, and every iteration sends about the same.

// How many different rounds buckets are at: the schedule's period, or 8 of a longer one.
std::int64_t turns_of(const Schedule& schedule);

// By bucket: how many rounds it is ahead, so that the bytes at each of the turns are about the same.
std::vector<std::int64_t> stagger(std::int64_t turns, std::span<const double> bucket_bytes);

// The bytes of the fullest turn over the mean of the turns; 1 when all have the same.
double fullest_turn(std::int64_t turns, std::span<const double> bucket_bytes,
                    std::span<const std::int64_t> ahead);

// Whether workers of different nodes meet in some turn. Buckets of unequal size then make unequal iterations.
bool crosses_nodes(const Schedule& schedule);

// The size of buckets that are to be staggered: `wanted`, unless the model would have fewer buckets than
// turns and its parts are not tiny (1 MiB).
double staggered_bucket_bytes(std::int64_t turns, double model_bytes, double wanted);

// How many buckets all-reduce cuts a small model into, in the same way: it hides only behind the rest of
// backward, so it needs buckets that are small beside the model.
inline constexpr std::int64_t kAllReduceParts = 6;

}  // namespace kith::graph
