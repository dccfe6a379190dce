#include <algorithm>

#include "kith/kernels/cpu/loops.h"
#include "kith/kernels/cpu/portable/elements.h"

namespace kith::kernels {
namespace {

template <class T>
void convert_as(const ConvertJob& job, Range range) {
  constexpr std::size_t kTile = 512;
  T tile[kTile];
  for (std::size_t i = range.begin; i < range.end; i += kTile) {
    const std::size_t count = std::min(kTile, range.end - i);
    load_elements(job.from, job.from_type, i, count, tile);
    store_elements(tile, count, job.to, job.to_type, i);
  }
}

void convert_range(const ConvertJob& job, Range range) {
  const bool wide = job.from_type == DType::f64 || job.to_type == DType::f64;
  wide ? convert_as<double>(job, range) : convert_as<float>(job, range);
}

}  // namespace

ConvertLoop select_convert_loop() {
  return convert_range;
}

}  // namespace kith::kernels
