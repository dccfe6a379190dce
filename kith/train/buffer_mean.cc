#include "kith/train/buffer_mean.h"

namespace kith::train {
namespace {

torch::Tensor part(std::vector<double>& flat, std::size_t first, const torch::Tensor& like) {
  return torch::from_blob(flat.data() + first, {like.numel()}, torch::kFloat64);
}

}  // namespace

BufferMean::BufferMean(const torch::nn::Module& module) {
  std::size_t count = 0;
  for (const auto& item : module.named_buffers()) {
    const torch::Tensor& buffer = item.value();
    if (!buffer.defined() || !buffer.is_floating_point() || buffer.numel() == 0) continue;
    buffers_.push_back(buffer);
    count += static_cast<std::size_t>(buffer.numel());
  }
  flat_.resize(count);
}

void BufferMean::share_start(engine::Engine& engine) {
  if (empty()) return;
  gather_own();
  engine.share(flat_);
  scatter();
}

void BufferMean::average(engine::Engine& engine) {
  if (empty()) return;
  std::vector<torch::Tensor> own;
  for (const torch::Tensor& buffer : buffers_)
    own.push_back(buffer.clone());
  gather_own();
  engine.mean(flat_);
  saved_ = std::move(own);
  scatter();
}

void BufferMean::restore() {
  const torch::NoGradGuard no_grad;
  for (std::size_t k = 0; k < saved_.size(); ++k)
    buffers_[k].copy_(saved_[k]);
  saved_.clear();
}

void BufferMean::gather_own() {
  const torch::NoGradGuard no_grad;
  std::size_t first = 0;
  for (const torch::Tensor& buffer : buffers_) {
    part(flat_, first, buffer).copy_(buffer.reshape({-1}));
    first += static_cast<std::size_t>(buffer.numel());
  }
}

void BufferMean::scatter() {
  const torch::NoGradGuard no_grad;
  std::size_t first = 0;
  for (torch::Tensor& buffer : buffers_) {
    buffer.copy_(part(flat_, first, buffer).reshape(buffer.sizes()));
    first += static_cast<std::size_t>(buffer.numel());
  }
}

}  // namespace kith::train
