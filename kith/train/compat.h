#pragma once

// What LibTorch 1.13 and 2.x do not promise in one stable place: internals that the wrapper cannot do
// without.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

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

// State of the process-wide CPU generator, as bytes.
inline torch::Tensor random_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state().contiguous();
}

inline void set_random_state(const torch::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace kith::train::compat
