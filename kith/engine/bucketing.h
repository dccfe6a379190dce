#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kith/engine/options.h"
#include "kith/engine/segment.h"

namespace kith::engine {

// A segment, or a range of one, and where it lies in its bucket.
struct Placed {
  std::size_t segment = 0;  // index in the table
  std::size_t first = 0;    // element of the bucket, a multiple of 64 bytes and of the wire's blocks
  std::size_t from = 0;     // element of the segment
  std::size_t count = 0;
};

struct BucketPlan {
  DType type = DType::f32;  // of its segments
  std::size_t count = 0;    // elements, padding included
  std::vector<Placed> segments;

  // Whether it holds a part of a segment only.
  bool splits(std::span<const Segment> table) const;
};

// Cuts the table into buckets in reverse order of registration (the order in which gradients become final),
// one element type each; a bucket is closed when it has at least `bytes` bytes. Segments begin at multiples
// of `block` elements, and so does the bucket's end (block_of the wire).
std::vector<BucketPlan> cut_buckets(std::span<const Segment> segments, std::size_t bytes,
                                    std::size_t block = 1);

// The same with buckets of about `bytes` bytes, the last of a type aside: a segment that reaches far into the
// next bucket is split between the two.
std::vector<BucketPlan> cut_evenly(std::span<const Segment> segments, std::size_t bytes,
                                   std::size_t block = 1);

// The buckets of a cut that was made before. InputError when it is not one of this table.
std::vector<BucketPlan> plans_of(const Cut& cut, std::span<const Segment> segments, std::size_t block = 1);
Cut cut_of(std::span<const BucketPlan> plans);

// Of names, sizes, types and layouts, in order: equal on workers that have the same model.
std::uint64_t digest(const BucketPlan& plan, std::span<const Segment> segments);

}  // namespace kith::engine
