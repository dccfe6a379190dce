#include "kith/train/models/cpu_passes.h"

#include <optional>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/autograd.h>
#include <torch/version.h>

#include "kith/base/error.h"
#include "kith/kernels/cpu/model_loops.h"

namespace kith::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Positions; twice as fast as torch 1.13 here. Torch 2 has an attention that keeps no weights, for long
// texts.
constexpr std::int64_t kLongest = TORCH_VERSION_MAJOR >= 2 ? 256 : 1024;
constexpr std::int64_t kGrain = 1 << 15;  // elements that are worth a thread

const std::optional<kernels::ModelLoops>& loops() {
  static const std::optional<kernels::ModelLoops> here = kernels::select_model_loops();
  return here;
}

void refuse_second_derivative() {
  if (torch::GradMode::is_enabled())
    throw InputError("backward with create_graph", "a GPT on a CPU", "its passes have no second derivative");
}

// The heads of all samples, one after the other.
class Heads {
 public:
  Heads(const torch::Tensor& query_key_value, std::int64_t heads)
      : heads_(heads),
        length_(query_key_value.size(1)),
        width_(query_key_value.size(2) / 3),
        count_(query_key_value.size(0) * heads) {}

  std::int64_t count() const { return count_; }
  // Where a head begins, in something of `columns` numbers for a position.
  std::int64_t offset(std::int64_t head, std::int64_t columns) const {
    return head / heads_ * length_ * columns + head % heads_ * (width_ / heads_);
  }
  kernels::AttentionHead head(const torch::Tensor& query_key_value, std::int64_t index) const {
    const float* query = query_key_value.data_ptr<float>() + offset(index, 3 * width_);
    return {query,
            query + width_,
            query + 2 * width_,
            static_cast<std::size_t>(3 * width_),
            static_cast<std::size_t>(length_),
            static_cast<std::size_t>(width_ / heads_)};
  }
  std::int64_t width() const { return width_; }
  std::int64_t row() const {
    return static_cast<std::int64_t>(kernels::attention_row(static_cast<std::size_t>(length_)));
  }
  std::int64_t weights_of(std::int64_t head) const { return head * length_ * row(); }

  // work(head, its index, memory to work in)
  template <class Work>
  void each(const torch::Tensor& query_key_value, const Work& work) const {
    at::parallel_for(0, count_, /*grain_size=*/1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch(kernels::attention_scratch(head(query_key_value, begin)));
      for (std::int64_t i = begin; i < end; ++i)
        work(head(query_key_value, i), i, scratch.data());
    });
  }

 private:
  const std::int64_t heads_;
  const std::int64_t length_;
  const std::int64_t width_;
  const std::int64_t count_;
};

class Attend final : public torch::autograd::Function<Attend> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& query_key_value,
                               std::int64_t heads) {
    const Heads all(query_key_value, heads);
    const auto width = static_cast<std::size_t>(all.width());
    torch::Tensor seen = torch::empty({query_key_value.size(0), query_key_value.size(1), all.width()},
                                      query_key_value.options());
    const torch::Tensor weights =
        torch::empty({all.count(), query_key_value.size(1), all.row()}, query_key_value.options());
    float* const to = seen.data_ptr<float>();
    float* const weighed = weights.data_ptr<float>();
    all.each(query_key_value, [&](const kernels::AttentionHead& head, std::int64_t i, float* scratch) {
      loops()->attend(head, weighed + all.weights_of(i), to + all.offset(i, all.width()), width, scratch);
    });
    context->save_for_backward({query_key_value, weights});
    context->saved_data["heads"] = heads;
    return seen;
  }

  static variable_list backward(AutogradContext* context, variable_list of_seen) {
    refuse_second_derivative();
    const variable_list saved = context->get_saved_variables();
    const Heads all(saved[0], context->saved_data["heads"].toInt());
    const auto width = static_cast<std::size_t>(all.width());
    const torch::Tensor of = of_seen[0].contiguous();
    torch::Tensor gradient = torch::empty_like(saved[0]);
    const float* const from = of.data_ptr<float>();
    const float* const weighed = saved[1].data_ptr<float>();
    all.each(saved[0], [&](const kernels::AttentionHead& head, std::int64_t i, float* scratch) {
      float* query = gradient.data_ptr<float>() + all.offset(i, 3 * all.width());
      loops()->attend_gradient(head, weighed + all.weights_of(i), from + all.offset(i, all.width()), width,
                               {query, query + width, query + 2 * width}, scratch);
    });
    return {gradient, torch::Tensor()};
  }
};

class Gelu final : public torch::autograd::Function<Gelu> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x) {
    torch::Tensor y = torch::empty_like(x);
    const torch::Tensor slope = torch::empty_like(x);
    const float* const from = x.data_ptr<float>();
    float* const to = y.data_ptr<float>();
    float* const slopes = slope.data_ptr<float>();
    at::parallel_for(0, x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      loops()->gelu(from + begin, to + begin, slopes + begin, static_cast<std::size_t>(end - begin));
    });
    context->save_for_backward({slope});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list of_y) {
    refuse_second_derivative();
    return {of_y[0] * context->get_saved_variables()[0]};
  }
};

bool floats_here(const torch::Tensor& x) {
  return loops() && x.is_cpu() && x.scalar_type() == torch::kFloat32 && x.is_contiguous() && x.numel() > 0;
}

}  // namespace

bool fits_attention_on_cpu(const torch::Tensor& query_key_value, std::int64_t heads) {
  return floats_here(query_key_value) && query_key_value.size(1) <= kLongest &&
         query_key_value.size(2) % (3 * heads * static_cast<std::int64_t>(kernels::kHeadStep)) == 0;
}

torch::Tensor causal_attention_on_cpu(const torch::Tensor& query_key_value, std::int64_t heads) {
  return Attend::apply(query_key_value, heads);
}

torch::Tensor exact_gelu(const torch::Tensor& x) {
  return floats_here(x) ? Gelu::apply(x) : torch::gelu(x);
}

}  // namespace kith::train
