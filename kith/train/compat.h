#pragma once

// What LibTorch 1.13 and 2.x do not promise in one stable place: internals that the wrapper cannot do
// without.

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>
#include <torch/version.h>

namespace kith::train::compat {

// A graph that saved the tensor throws when it is used after this, as after any change in place.
inline void bump_version(const torch::Tensor& tensor) {
  torch::autograd::impl::bump_version(tensor);
}

inline std::int64_t version_of(const torch::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.unsafeGetTensorImpl()->version_counter().current_version());
}

// Calls back each time a backward pass has added to the parameter's gradient. Hooks the parameter's own
// accumulation node, as torch's own data-parallel reducer does in 1.13 and in 2.x alike; the post-accumulate
// hook of 2.1 and later has room for one hook per tensor, which belongs to the user.
class GradientHook {
 public:
  // REQUIRES: the parameter is a leaf that requires a gradient.
  GradientHook(const torch::Tensor& parameter, std::function<void()> ready)
      : node_(torch::autograd::impl::grad_accumulator(parameter)) {
    using torch::autograd::variable_list;
    key_ = node_->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [ready = std::move(ready)](const variable_list& outputs, const variable_list&) {
          ready();
          return outputs;
        }));
  }
  ~GradientHook() { node_->del_post_hook(key_); }
  GradientHook(const GradientHook&) = delete;
  GradientHook& operator=(const GradientHook&) = delete;

 private:
  std::shared_ptr<torch::autograd::Node> node_;  // torch itself keeps only a weak reference
  std::uintptr_t key_ = 0;
};

// State of the process-wide generator of a device, as bytes in host memory.
inline torch::Tensor random_state(torch::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state().contiguous();
}

inline void set_random_state(torch::Device device, const torch::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

// Whether the CPU's generator would take the state. Torch itself says why not at length.
inline bool is_random_state(const torch::Tensor& state) {
  try {
    at::detail::createCPUGenerator().set_state(state);
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

// softmax(q k' / sqrt(width) + mask) v, where a position sees itself and those before; the last two
// dimensions are (position, width).
inline torch::Tensor causal_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                      double dropout) {
#if TORCH_VERSION_MAJOR >= 2
  return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, dropout, /*is_causal=*/true);
#else
  const auto length = q.size(-2);
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const torch::Tensor future =
      torch::ones({length, length}, q.options().dtype(torch::kBool)).triu(/*diagonal=*/1);
  const torch::Tensor weights =
      torch::matmul(q, k.transpose(-2, -1)).mul(scale).masked_fill(future, -INFINITY).softmax(/*dim=*/-1);
  return torch::matmul(torch::dropout(weights, dropout, /*train=*/dropout > 0), v);
#endif
}

// While it lives, torch's operations of this thread on the device compute in the given type where that is
// safe, and in float where it is not (torch's own lists): for forward passes and losses. Parameters keep
// their type; what was cast of them is kept until the guard ends.
class Autocast {
 public:
  // REQUIRES: bf16, or on a GPU fp16.
  Autocast(torch::DeviceType device, torch::ScalarType type)
      : device_(device), was_on_(is_on(device)), was_type_(type_of(device)) {
    set(true, type);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    set(was_on_, was_type_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  // What operations on the device compute in now; nothing without autocast.
  static std::optional<torch::ScalarType> type_on(torch::DeviceType device) {
    return is_on(device) ? std::optional(type_of(device)) : std::nullopt;
  }

 private:
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  static bool is_on(torch::DeviceType device) {
    return at::autocast::is_autocast_enabled(device);
  }
  static torch::ScalarType type_of(torch::DeviceType device) {
    return at::autocast::get_autocast_dtype(device);
  }
  void set(bool on, torch::ScalarType type) const {
    at::autocast::set_autocast_enabled(device_, on);
    at::autocast::set_autocast_dtype(device_, type);
  }
#else
  static bool is_on(torch::DeviceType device) {
    return device == torch::kCPU ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
  }
  static torch::ScalarType type_of(torch::DeviceType device) {
    return device == torch::kCPU ? at::autocast::get_autocast_cpu_dtype()
                                 : at::autocast::get_autocast_gpu_dtype();
  }
  void set(bool on, torch::ScalarType type) const {
    if (device_ == torch::kCPU) {
      at::autocast::set_cpu_enabled(on);
      at::autocast::set_autocast_cpu_dtype(type);
    } else {
      at::autocast::set_enabled(on);
      at::autocast::set_autocast_gpu_dtype(type);
    }
  }
#endif

  const torch::DeviceType device_;
  const bool was_on_;
  const torch::ScalarType was_type_;
};

}  // namespace kith::train::compat
