#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kith/base/dtype.h"

namespace kith::engine {

// One trainable parameter as the engine knows it: a dense block of `count` elements in storage order. Tied
// parameters are merged before they get here; a segment's layout (sizes, strides) only has to be the same on
// every worker.
struct Segment {
  std::string name;
  void* data = nullptr;  // where the parameter lies when the engine is built
  std::size_t count = 0;
  DType type = DType::f32;
  std::uint64_t layout_digest = 0;  // of sizes and strides
};

// What a segment brings to one step. lr and decay are read at every step, so schedulers and parameter groups
// work.
struct SegmentInput {
  const void* gradient = nullptr;  // null: unused or frozen this step, the parameter is only mixed
  DType gradient_type = DType::f32;
  double lr = 0;
  double decay = 0;
};

}  // namespace kith::engine
