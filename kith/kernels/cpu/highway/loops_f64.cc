#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kith/kernels/cpu/highway/loops_f64.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before everything that is compiled once per target.
#include "hwy/highway.h"
#include "kith/kernels/cpu/highway/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kith::kernels::HWY_NAMESPACE {

Loops<double> loops_f64() {
  return make_loops<double>();
}

}  // namespace kith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kith::kernels {

HWY_EXPORT(loops_f64);

template <>
Loops<double> select_loops<double>() {
  return HWY_DYNAMIC_DISPATCH(loops_f64)();
}

}  // namespace kith::kernels
#endif
