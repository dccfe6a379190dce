#pragma once

#include <string>
#include <string_view>

namespace kith::cli {

// Note [Products of matrices for this processor]
// OpenBLAS chooses its kernels by the number of a processor's model. It takes a model that is newer than
// itself for one of 2004 (version 0.3.21 of Debian 12 calls a Xeon of 2023 "Prescott"), and training then
// takes more than twice as long. OPENBLAS_CORETYPE overrules the choice, and is read when the library is
// loaded: so kith looks before it becomes the program that is linked to LibTorch.

// The name of OpenBLAS's kernels for the instruction set (kernels::cpu_target()), where those that it has
// `chosen` are made for an older one; empty where the choice stands.
std::string better_blas_kernels(std::string_view chosen, std::string_view instruction_set);

// Sets OPENBLAS_CORETYPE where it is not set and OpenBLAS chooses worse. Without OpenBLAS nothing happens.
void choose_blas_kernels();

}  // namespace kith::cli
