#include "kith/engine/gradient_norm.h"

#include <cmath>
#include <utility>

namespace kith::engine {

GradientNorm::GradientNorm(gossip::DeviceWork& work, bool precise)
    : work_(work),
      kernels_f32_(precise ? nullptr : work.device.compute().kernels_f32()),
      kernels_f64_(work.device.compute().kernels_f64()),
      numbers_(work.device.allocate(2 * sizeof(double))),
      sum_(work.device.allocate_pinned(sizeof(double))) {}

void GradientNorm::find_non_finite(std::span<const kernels::Vector> vectors, float* found) {
  kernels_f64_->find_non_finite(vectors, found);  // looks at each type as it is
}

std::shared_future<double> GradientNorm::measure(std::span<const kernels::Vector> vectors, double scale) {
  double* const sum = numbers_.as<double>();
  kernels_f32_ ? kernels_f32_->sum_squares(vectors, sum) : kernels_f64_->sum_squares(vectors, sum);
  if (scale != 1) {
    const kernels::Source unscaled{sum, DType::f64, scale * scale};
    kernels_f64_->mix({sum, nullptr, {}}, {{&unscaled, 1}, 1}, 1);
  }
  kernels::Queue& queue = work_.device.compute();
  queue.copy(sum_.data(), sum, sizeof(double));
  const auto norm = std::make_shared<std::promise<double>>();
  std::shared_future<double> result = norm->get_future().share();
  work_.completions.submit(queue.mark(), [norm, squares = sum_](kernels::Queue&) {
    norm->set_value(std::sqrt(*squares.as<double>()));
  });
  return result;
}

const double* GradientNorm::clip(double most) {
  double* const factor = numbers_.as<double>() + 1;
  kernels_f64_->clip_factor(numbers_.as<double>(), most, factor);
  return factor;
}

}  // namespace kith::engine
