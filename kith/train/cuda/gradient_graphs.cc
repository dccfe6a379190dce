#include "kith/train/gradient_graphs.h"

#include <map>
#include <tuple>
#include <utility>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/torch.h>
#include <torch/version.h>

#include "kith/base/error.h"

#define KITH_HAS_GRAPHS (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1))

namespace kith::train {

#if KITH_HAS_GRAPHS

namespace {

constexpr int kRunsBefore = 2;  // libraries choose and load what they need in these

using Key = std::tuple<std::vector<std::int64_t>, std::vector<std::int64_t>, double>;

struct Recording {
  at::cuda::CUDAGraph graph;
  Batch batch;
  torch::Tensor loss;
  std::vector<torch::Tensor> gradients;  // of each parameter; undefined ones get none
};

}  // namespace

class GradientGraphs::Impl {
 public:
  Impl(std::vector<torch::Tensor> parameters, Forward forward)
      : parameters_(std::move(parameters)), forward_(std::move(forward)) {}

  torch::Tensor run(const Batch& batch, double weight) {
    follow_addresses();
    const Key key{batch.input.sizes().vec(), batch.target.sizes().vec(), weight};
    if (const auto found = recordings_.find(key); found != recordings_.end())
      return repeat(*found->second, batch);
    if (runs_[key]++ < kRunsBefore) return pass(batch, weight).detach();
    return repeat(*recordings_.emplace(key, record(batch, weight)).first->second, batch);
  }

 private:
  torch::Tensor pass(const Batch& batch, double weight) {
    const torch::Tensor loss = weight * forward_(batch);
    loss.backward();
    return loss;
  }

  void follow_addresses() {
    std::vector<void*> now;
    for (const torch::Tensor& parameter : parameters_)
      now.push_back(parameter.data_ptr());
    if (now == addresses_) return;
    recordings_.clear();
    addresses_ = std::move(now);
  }

  std::vector<torch::Tensor> take_gradients() {
    std::vector<torch::Tensor> taken;
    for (torch::Tensor& parameter : parameters_)
      taken.push_back(std::exchange(parameter.mutable_grad(), {}));
    return taken;
  }

  std::unique_ptr<Recording> record(const Batch& batch, double weight) {
    const std::vector<torch::Tensor> before = take_gradients();
    auto made = std::make_unique<Recording>();
    made->batch = {batch.input.clone(), batch.target.clone()};
    try {
      // The other threads of this process go on using the device meanwhile.
      made->graph.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
      made->loss = pass(made->batch, weight).detach();
      made->graph.capture_end();
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      throw Error(text.substr(0, text.find('\n')), "recording a pass", "train.graph = \"off\"");
    }
    made->gradients = take_gradients();
    for (std::size_t i = 0; i < before.size(); ++i)
      parameters_[i].mutable_grad() = before[i];
    return made;
  }

  torch::Tensor repeat(Recording& recording, const Batch& batch) {
    const torch::NoGradGuard no_grad;
    recording.batch.input.copy_(batch.input);
    recording.batch.target.copy_(batch.target);
    // What an earlier pass of this step left in the same place.
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      torch::Tensor& present = parameters_[i].mutable_grad();
      if (present.defined() && present.is_same(recording.gradients[i])) present = present.clone();
    }
    recording.graph.replay();
    std::vector<torch::Tensor> sums, more;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor& made = recording.gradients[i];
      if (!made.defined()) continue;
      torch::Tensor& present = parameters_[i].mutable_grad();
      if (!present.defined()) {
        present = made;
        continue;
      }
      sums.push_back(present);
      more.push_back(made);
    }
    if (!sums.empty()) at::_foreach_add_(sums, more);
    return recording.loss;
  }

  std::vector<torch::Tensor> parameters_;
  const Forward forward_;
  const at::cuda::MempoolId_t pool_ = at::cuda::graph_pool_handle();
  std::vector<void*> addresses_;
  std::map<Key, int> runs_;
  std::map<Key, std::unique_ptr<Recording>> recordings_;
};

GradientGraphs::GradientGraphs(std::vector<torch::Tensor> parameters, Forward forward)
    : impl_(std::make_unique<Impl>(std::move(parameters), std::move(forward))) {}
GradientGraphs::~GradientGraphs() = default;

torch::Tensor GradientGraphs::run(const Batch& batch, double weight) {
  return impl_->run(batch, weight);
}

std::string graphs_obstacle(torch::Device device) {
  return device.is_cuda() ? "" : "recorded passes are for GPUs";
}

#else

class GradientGraphs::Impl {};
GradientGraphs::GradientGraphs(std::vector<torch::Tensor> /*parameters*/, Forward /*forward*/) {}
GradientGraphs::~GradientGraphs() = default;
torch::Tensor GradientGraphs::run(const Batch& /*batch*/, double /*weight*/) {
  return {};
}
std::string graphs_obstacle(torch::Device /*device*/) {
  return "recorded passes need LibTorch 2.1";
}

#endif

std::shared_ptr<void> own_stream(torch::Device device) {
  if (!device.is_cuda()) return nullptr;
  return std::make_shared<c10::cuda::CUDAStreamGuard>(
      c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()));
}

}  // namespace kith::train
