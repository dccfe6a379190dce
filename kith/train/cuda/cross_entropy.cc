#include "kith/train/cross_entropy.h"

#include <optional>

#include <c10/cuda/CUDAStream.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "kith/kernels/cuda/cross_entropy.h"

namespace kith::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::optional<DType> type_of(const torch::Tensor& scores) {
  switch (scores.scalar_type()) {
    case torch::kFloat32:
      return DType::f32;
    case torch::kBFloat16:
      return DType::bf16;
    case torch::kFloat16:
      return DType::f16;
    default:
      return std::nullopt;
  }
}

kernels::CudaOptions stream_of(const torch::Tensor& scores) {
  const int device = scores.get_device();
  return {device, c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream()};
}

kernels::Classification problem_of(const torch::Tensor& scores, const torch::Tensor& target) {
  return {scores.data_ptr(), *type_of(scores), target.data_ptr<std::int64_t>(),
          static_cast<std::size_t>(scores.size(0)), static_cast<std::size_t>(scores.size(1))};
}

class Fused final : public torch::autograd::Function<Fused> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& scores,
                               const torch::Tensor& target) {
    const auto floats = scores.options().dtype(torch::kFloat32);
    const torch::Tensor log_sums = torch::empty({scores.size(0)}, floats);
    const torch::Tensor losses = torch::empty({scores.size(0)}, floats);
    kernels::cross_entropy(stream_of(scores), problem_of(scores, target), log_sums.data_ptr<float>(),
                           losses.data_ptr<float>());
    context->save_for_backward({scores, target, log_sums});
    return losses.mean();
  }

  static variable_list backward(AutogradContext* context, variable_list of_loss) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor &scores = saved[0], &target = saved[1], &log_sums = saved[2];
    const torch::Tensor scale = of_loss[0].to(torch::kFloat32).contiguous();
    torch::Tensor gradient = torch::empty_like(scores);
    kernels::cross_entropy_gradient(stream_of(scores), problem_of(scores, target), log_sums.data_ptr<float>(),
                                    scale.data_ptr<float>(), gradient.data_ptr());
    return {gradient, torch::Tensor()};
  }
};

}  // namespace

torch::Tensor cross_entropy(const torch::Tensor& scores, const torch::Tensor& target) {
  const bool fits = scores.is_cuda() && scores.device() == target.device() && type_of(scores) &&
                    scores.dim() == 2 && scores.is_contiguous() && target.is_contiguous() &&
                    target.scalar_type() == torch::kInt64 && target.dim() == 1 &&
                    target.size(0) == scores.size(0) && scores.size(0) > 0;
  return fits ? Fused::apply(scores, target) : plain_cross_entropy(scores, target);
}

}  // namespace kith::train
