#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kith/kernels/cpu/highway/convert.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before everything that is compiled once per target.
#include "hwy/highway.h"
#include "kith/kernels/cpu/highway/elements-inl.h"
#include "kith/kernels/cpu/loops.h"

HWY_BEFORE_NAMESPACE();
namespace kith::kernels::HWY_NAMESPACE {

template <class T>
void convert_as(const ConvertJob& job, Range range) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = range.begin;
  for (; i + lanes <= range.end; i += lanes) {
    store(d, load(d, job.from, job.from_type, i), job.to, job.to_type, i);
  }
  if (i == range.end) return;
  const std::size_t n = range.end - i;
  store_part(d, load_part(d, job.from, job.from_type, i, n), job.to, job.to_type, i, n);
}

void convert_range(const ConvertJob& job, Range range) {
  const bool wide = job.from_type == DType::f64 || job.to_type == DType::f64;
  wide ? convert_as<double>(job, range) : convert_as<float>(job, range);
}

ConvertLoop convert_loop() {
  return convert_range;
}

}  // namespace kith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kith::kernels {

HWY_EXPORT(convert_loop);

ConvertLoop select_convert_loop() {
  return HWY_DYNAMIC_DISPATCH(convert_loop)();
}

}  // namespace kith::kernels
#endif
