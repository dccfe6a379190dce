#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kith/kernels/kernels.h"

namespace kith::bench {

// The memory of one step on one bucket, and room for the temporaries of separate passes.
struct Arrays {
  std::size_t count = 0;
  float* self = nullptr;
  const float* peer = nullptr;
  const float* gradient = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  float* accumulator = nullptr;
  float* next = nullptr;
  float* direction = nullptr;    // temporary
  float* denominator = nullptr;  // temporary
};

enum class Stores { cached, streamed };

// Reads self, peer, gradient, m, v and accumulator, writes next and accumulator, and computes almost nothing:
// next is the sum of all six, accumulator becomes its own negation.
void bare_pass(const Arrays& arrays, Stores stores);

// One pass over memory, as a framework's tensor operation makes it.
struct Pass {
  std::string operation;
  int reads = 0;
  int writes = 0;
};

// A non-committing step of accumulated AdamW with mixing weights 1/2, as separate passes: mixes into `self`,
// and publishes by a copy to `next`.
std::vector<Pass> list_of_passes();
void separate_passes(const Arrays& arrays, const kernels::AccumAdamOptions& options);

}  // namespace kith::bench
