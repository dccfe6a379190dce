#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kith/kernels/cpu/highway/loops_f32.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before everything that is compiled once per target.
#include "hwy/highway.h"
#include "kith/kernels/cpu/highway/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kith::kernels::HWY_NAMESPACE {

Loops<float> loops_f32() {
  return make_loops<float>();
}

}  // namespace kith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kith::kernels {

HWY_EXPORT(loops_f32);

template <>
Loops<float> select_loops<float>() {
  return HWY_DYNAMIC_DISPATCH(loops_f32)();
}

}  // namespace kith::kernels
#endif
