#pragma once

#include "kith/sim/job.h"

namespace kith::plan {

// The same job cut into buckets of about `target_bytes`, in order: neighbours are joined until they reach it,
// larger ones cut into equal parts. Times follow the bytes; joining parts whose times vary independently
// lowers their spread. REQUIRES: target_bytes > 0.
sim::Job rebucket(const sim::Job& job, double target_bytes);

}  // namespace kith::plan
