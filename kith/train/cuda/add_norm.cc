#include "kith/train/add_norm.h"

#include <c10/cuda/CUDAStream.h>
#include <torch/autograd.h>

#include "kith/kernels/cuda/norm.h"
#include "kith/train/compat.h"

namespace kith::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

kernels::CudaOptions stream_of(const torch::Tensor& x) {
  const int device = x.get_device();
  return {device, c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream()};
}

DType type_of(torch::ScalarType type) {
  return type == torch::kBFloat16 ? DType::bf16 : DType::f16;
}

float* floats(const torch::Tensor& t) {
  return t.defined() ? t.data_ptr<float>() : nullptr;
}

// Autograd wants defined inputs: where there is no delta or no bias another tensor stands for it, and gets no
// gradient.
struct Has {
  bool delta;
  bool bias;
};

class Fused final : public torch::autograd::Function<Fused> {
 public:
  static variable_list forward(AutogradContext* context, const torch::Tensor& x, const torch::Tensor& delta,
                               const torch::Tensor& weight, const torch::Tensor& bias, Has has,
                               torch::ScalarType type) {
    const std::int64_t width = x.size(-1), rows = x.numel() / width;
    const torch::Tensor sum = has.delta ? torch::empty_like(x) : torch::Tensor();
    const torch::Tensor normed = torch::empty(x.sizes(), x.options().dtype(type));
    const torch::Tensor mean = torch::empty({rows}, x.options());
    const torch::Tensor inverse = torch::empty({rows}, x.options());
    kernels::AddNorm problem;
    problem.rows = static_cast<std::size_t>(rows);
    problem.width = static_cast<std::size_t>(width);
    problem.eps = static_cast<float>(kNormEps);
    problem.x = floats(x);
    problem.delta = has.delta ? delta.data_ptr() : nullptr;
    problem.weight = floats(weight);
    problem.bias = has.bias ? floats(bias) : nullptr;
    problem.type = type_of(type);
    problem.sum = floats(sum);
    problem.normed = normed.data_ptr();
    problem.mean = floats(mean);
    problem.inverse_deviation = floats(inverse);
    kernels::add_norm(stream_of(x), problem);
    context->save_for_backward({has.delta ? sum : x, weight, mean, inverse});
    context->saved_data["delta"] = has.delta;
    context->saved_data["bias"] = has.bias;
    context->saved_data["type"] = static_cast<std::int64_t>(type);
    context->set_materialize_grads(false);
    return has.delta ? variable_list{normed, sum} : variable_list{normed};
  }

  static variable_list backward(AutogradContext* context, const variable_list& arrived) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor &sum = saved[0], &weight = saved[1];
    const Has has{context->saved_data["delta"].toBool(), context->saved_data["bias"].toBool()};
    const auto type = static_cast<torch::ScalarType>(context->saved_data["type"].toInt());
    const torch::Tensor none;
    const torch::Tensor of_sum = has.delta && arrived[1].defined() ? arrived[1].contiguous() : none;
    if (!arrived[0].defined()) {  // the norm leads nowhere
      const torch::Tensor of_delta = of_sum.defined() ? of_sum.to(type) : none;
      return {of_sum, of_delta, none, none, none, none};
    }
    const torch::Tensor of_normed = arrived[0].to(type).contiguous();
    const std::int64_t width = sum.size(-1);
    kernels::AddNormGradient problem;
    problem.rows = static_cast<std::size_t>(sum.numel() / width);
    problem.width = static_cast<std::size_t>(width);
    const torch::Tensor of_x = torch::empty_like(sum);
    const torch::Tensor of_delta =
        has.delta ? torch::empty(sum.sizes(), of_normed.options()) : torch::Tensor();
    const torch::Tensor of_weight = torch::empty_like(weight);
    const torch::Tensor of_bias = has.bias ? torch::empty_like(weight) : torch::Tensor();
    const torch::Tensor scratch = torch::empty(
        {static_cast<std::int64_t>(kernels::norm_scratch(problem.rows, problem.width))}, sum.options());
    problem.sum = floats(sum);
    problem.mean = floats(saved[2]);
    problem.inverse_deviation = floats(saved[3]);
    problem.weight = floats(weight);
    problem.type = type_of(type);
    problem.of_normed = of_normed.data_ptr();
    problem.of_sum = floats(of_sum);
    problem.of_x = floats(of_x);
    problem.of_delta = has.delta ? of_delta.data_ptr() : nullptr;
    problem.of_weight = floats(of_weight);
    problem.of_bias = floats(of_bias);
    problem.scratch = floats(scratch);
    kernels::add_norm_gradient(stream_of(sum), problem);
    return {of_x, of_delta, of_weight, of_bias, none, none};
  }
};

bool is_plain_float(const torch::Tensor& t) {
  return t.is_cuda() && t.scalar_type() == torch::kFloat32 && t.is_contiguous() &&
         reinterpret_cast<std::uintptr_t>(t.data_ptr()) % 16 == 0;
}

}  // namespace

AddNorm add_norm(const torch::Tensor& x, const torch::Tensor& delta, const torch::Tensor& weight,
                 const torch::Tensor& bias) {
  const auto type = compat::Autocast::type_on(torch::kCUDA);
  const bool fits = type && is_plain_float(x) && x.numel() > 0 && is_plain_float(weight) &&
                    weight.dim() == 1 && x.size(-1) == weight.size(0) &&
                    kernels::norm_fits(static_cast<std::size_t>(x.size(-1))) &&
                    (!bias.defined() || is_plain_float(bias)) &&
                    (!delta.defined() || (delta.is_cuda() && delta.scalar_type() == *type &&
                                          delta.is_contiguous() && delta.sizes() == x.sizes()));
  if (!fits) return plain_add_norm(x, delta, weight, bias);
  const Has has{delta.defined(), bias.defined()};
  const variable_list made =
      Fused::apply(x, has.delta ? delta : x, weight, has.bias ? bias : weight, has, *type);
  return {has.delta ? made[1] : x, made[0]};
}

}  // namespace kith::train
