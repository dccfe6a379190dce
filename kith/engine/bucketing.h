#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kith/engine/segment.h"

namespace kith::engine {

// Where a segment lies in its bucket.
struct Placed {
  std::size_t segment = 0;  // index in the table
  std::size_t first = 0;    // element, a multiple of 64 bytes
};

struct BucketPlan {
  DType type = DType::f32;  // of its segments
  std::size_t count = 0;    // elements, padding included
  std::vector<Placed> segments;
};

// Cuts the table into buckets in reverse order of registration (the order in which gradients become final),
// one element type each; a bucket is closed when it has at least `bytes` bytes.
std::vector<BucketPlan> cut_buckets(std::span<const Segment> segments, std::size_t bytes);

// Of names, sizes, types and layouts, in order: equal on workers that have the same model.
std::uint64_t digest(const BucketPlan& plan, std::span<const Segment> segments);

}  // namespace kith::engine
