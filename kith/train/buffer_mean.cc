#include "kith/train/buffer_mean.h"

#include <array>

namespace kith::train {

BufferMean::BufferMean(const torch::nn::Module& module, const engine::World& world,
                       const engine::EngineOptions& options) {
  std::int64_t count = 0;
  for (const auto& item : module.named_buffers()) {
    const torch::Tensor& buffer = item.value();
    if (!buffer.defined() || !buffer.is_floating_point() || buffer.numel() == 0) continue;
    buffers_.push_back(buffer);
    count += buffer.numel();
  }
  if (buffers_.empty()) return;
  flat_ = torch::zeros({count}, torch::kFloat64);
  engine::EngineOptions own;
  own.name = options.name + "/buffers";
  own.algorithm = "none";
  own.optimizer.name = "sgd";  // keeps no state
  own.schedule.shape = options.schedule.shape;
  own.patience = options.patience;
  engine_ = std::make_unique<engine::Engine>(
      world, own,
      std::vector<engine::Segment>{{"buffers", flat_.data_ptr(), static_cast<std::size_t>(count), DType::f64,
                                    static_cast<std::uint64_t>(count)}});
}

void BufferMean::share_start() {
  if (empty()) return;
  gather_own();
  engine_->start();
  scatter(flat_);
}

void BufferMean::average() {
  if (empty()) return;
  saved_.clear();
  for (const torch::Tensor& buffer : buffers_)
    saved_.push_back(buffer.clone());
  gather_own();
  const torch::Tensor mean = torch::empty_like(flat_);
  const std::array<void*, 1> to{mean.data_ptr()};
  engine_->average(to);
  scatter(mean);
}

void BufferMean::restore() {
  const torch::NoGradGuard no_grad;
  for (std::size_t k = 0; k < saved_.size(); ++k)
    buffers_[k].copy_(saved_[k]);
  saved_.clear();
}

void BufferMean::gather_own() {
  const torch::NoGradGuard no_grad;
  std::int64_t first = 0;
  for (const torch::Tensor& buffer : buffers_) {
    flat_.narrow(0, first, buffer.numel()).copy_(buffer.reshape({-1}));
    first += buffer.numel();
  }
}

void BufferMean::scatter(const torch::Tensor& flat) {
  const torch::NoGradGuard no_grad;
  std::int64_t first = 0;
  for (torch::Tensor& buffer : buffers_) {
    buffer.copy_(flat.narrow(0, first, buffer.numel()).reshape(buffer.sizes()));
    first += buffer.numel();
  }
}

}  // namespace kith::train
