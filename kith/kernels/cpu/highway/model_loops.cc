#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kith/kernels/cpu/highway/model_loops.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before everything that is compiled once per target.
#include "hwy/highway.h"
#include "kith/kernels/cpu/highway/attention-inl.h"
#include "kith/kernels/cpu/highway/gelu-inl.h"
#include "kith/kernels/cpu/model_loops.h"

HWY_BEFORE_NAMESPACE();
namespace kith::kernels::HWY_NAMESPACE {

ModelLoops model_loops() {
  return {attend, attend_gradient, gelu};
}

}  // namespace kith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kith::kernels {

HWY_EXPORT(model_loops);

std::optional<ModelLoops> select_model_loops() {
  return HWY_DYNAMIC_DISPATCH(model_loops)();
}

}  // namespace kith::kernels
#endif
