#include "kith/train/noise_meter.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace kith::train {
namespace {

constexpr double kKeep = 0.8;  // of the running means at a measurement

torch::Tensor square_sum(const torch::Tensor& values) {
  return values.square().sum(torch::kFloat64);
}

torch::Tensor wide(const torch::Tensor& values) {
  return values.scalar_type() == torch::kFloat64 ? values : values.to(torch::kFloat32);
}

}  // namespace

NoiseMeter::NoiseMeter(std::size_t parameters, Agree agree)
    : agree_(std::move(agree)), noise_(parameters), square_(parameters) {}

void NoiseMeter::take_part(const std::vector<torch::Tensor>& gradients, double share) {
  const torch::NoGradGuard no_grad;
  part_.clear();
  for (const torch::Tensor& gradient : gradients)
    part_.push_back(gradient.defined() ? gradient.clone() : gradient);
  part_share_ = share;
}

// A part has A = share * (its mean gradient), the whole T. The two parts' means differ by
// A/share - (T - A)/(1 - share), whose variance is s^2 / (share (1 - share)).
void NoiseMeter::take_whole(const std::vector<torch::Tensor>& gradients, ModelDevice& device) {
  if (part_.empty()) return;
  const torch::NoGradGuard no_grad;
  collect();
  const torch::Tensor zero =
      torch::zeros({}, torch::TensorOptions(device.torch_device()).dtype(torch::kFloat64));
  std::vector<torch::Tensor> numbers;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) {
      numbers.insert(numbers.end(), {zero, zero});
      continue;
    }
    const torch::Tensor whole = wide(gradients[i]);
    const torch::Tensor rest =
        part_[i].defined() ? wide(part_[i]) - part_share_ * whole : part_share_ * whole;
    numbers.push_back(square_sum(rest) / (part_share_ * (1 - part_share_)));
    numbers.push_back(square_sum(whole));
  }
  part_.clear();
  if (!numbers.empty()) measured_ = device.read(torch::stack(numbers));
}

void NoiseMeter::collect() {
  if (!measured_) return;
  std::vector<double> numbers = measured_->values();
  measured_.reset();
  if (agree_ && !agree_(numbers)) return;
  for (std::size_t i = 0; i < noise_.size(); ++i) {
    const double noise = numbers[2 * i];
    const double square = numbers[2 * i + 1];
    if (!std::isfinite(noise) || !std::isfinite(square) || square == 0) continue;
    noise_[i] = kKeep * noise_[i] + (1 - kKeep) * noise;
    square_[i] = kKeep * square_[i] + (1 - kKeep) * square;
  }
}

void NoiseMeter::agree_anew() {
  if (!agree_) return;
  std::vector<double> numbers;
  for (std::size_t i = 0; i < noise_.size(); ++i)
    numbers.insert(numbers.end(), {noise_[i], square_[i]});
  if (!agree_(numbers)) return;
  for (std::size_t i = 0; i < noise_.size(); ++i) {
    noise_[i] = numbers[2 * i];
    square_[i] = numbers[2 * i + 1];
  }
}

double NoiseMeter::share(std::size_t parameter) {
  if (!agree_) collect();
  return square_[parameter] > 0 ? std::min(1.0, noise_[parameter] / square_[parameter]) : 0;
}

double NoiseMeter::whole_share() {
  if (!agree_) collect();
  const double square = std::accumulate(square_.begin(), square_.end(), 0.0);
  return square > 0 ? std::min(1.0, std::accumulate(noise_.begin(), noise_.end(), 0.0) / square) : 0;
}

std::vector<double> NoiseMeter::state() {
  collect();
  std::vector<double> numbers;
  for (std::size_t i = 0; i < noise_.size(); ++i)
    numbers.insert(numbers.end(), {noise_[i], square_[i]});
  return numbers;
}

void NoiseMeter::restore(const std::vector<double>& state) {
  part_.clear();
  measured_.reset();
  for (std::size_t i = 0; i < noise_.size(); ++i) {
    noise_[i] = state[2 * i];
    square_[i] = state[2 * i + 1];
  }
}

double noise_rate(double share, int workers, int inside) {
  return std::sqrt((1 - share + share / inside) / (1 - share + share / workers));
}

}  // namespace kith::train
