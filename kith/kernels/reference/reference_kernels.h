#pragma once

#include <memory>

#include "kith/kernels/kernels.h"

namespace kith::kernels {

// Plain loops that compute in double and round each stored number once: the yardstick of every other
// implementation.
template <class T>
std::unique_ptr<Kernels<T>> make_reference_kernels();

}  // namespace kith::kernels
