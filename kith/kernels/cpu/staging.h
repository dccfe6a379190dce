#pragma once

#include <functional>

#include "kith/kernels/cpu/loops.h"

namespace kith::kernels {

// Passes that the loops cannot make alone: sources that are int8 or rounded, and an int8 copy of the result.
// They run tile by tile; what a tile needs is decoded into, and its copy encoded from, memory that stays in
// the first-level cache.

template <class T>
bool needs_staging(const Job<T>& job);

// REQUIRES: range.begin is a multiple of kInt8Block.
template <class T>
void run_staged(const Job<T>& job, Range range, ConvertLoop convert,
                const std::function<void(const Job<T>&, Range)>& loop);

}  // namespace kith::kernels
