#pragma once

#include "kith/kernels/kernels.h"

namespace kith::kernels {

// What every implementation REQUIRES of its arguments; a violation is a bug in the caller (kith::Bug).
// Pointers are looked at only when count > 0.

template <class T>
void check_mix(const Destination<T>& to, const Mix& mix, std::size_t count);

// A step: also `values` and the gradient are present.
template <class T>
void check_step(const Destination<T>& to, const Mix& mix, const Gradient& gradient, std::size_t count);

template <class T>
void check_sgd(const T* momentum, const SgdOptions& options, std::size_t count);

// Not i8, whose scales have no place in the call.
void check_plain(DType type);

void check_adam(const AdamOptions& options);
void check_accum_adam(const AccumAdamOptions& options);

}  // namespace kith::kernels
