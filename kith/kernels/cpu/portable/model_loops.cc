#include "kith/kernels/cpu/model_loops.h"

namespace kith::kernels {

std::optional<ModelLoops> select_model_loops() {
  return std::nullopt;
}

}  // namespace kith::kernels
