#include "kith/train/models/vision.h"

#include <algorithm>

#include <torch/torch.h>

namespace kith::train {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kPixels = 28 * 28;
constexpr std::int64_t kDigits = 10;

class Stack final : public Model {
 public:
  Stack(std::string name, nn::Sequential layers)
      : Model(std::move(name)), layers_(register_module("layers", layers)) {}
  torch::Tensor forward(const torch::Tensor& input) override { return layers_->forward(input); }

 private:
  nn::Sequential layers_;
};

void add_convolution(nn::Sequential& layers, std::int64_t from, std::int64_t to) {
  layers->push_back(nn::Conv2d(nn::Conv2dOptions(from, to, 3).padding(1).bias(false)));
  layers->push_back(nn::BatchNorm2d(to));
  layers->push_back(nn::ReLU());
  layers->push_back(nn::MaxPool2d(2));
}

}  // namespace

std::shared_ptr<Model> make_cnn(std::int64_t width) {
  const std::int64_t first = std::max<std::int64_t>(1, width / 2);
  constexpr std::int64_t kHidden = 128;
  nn::Sequential layers;
  add_convolution(layers, 1, first);
  add_convolution(layers, first, width);
  layers->push_back(nn::Flatten());
  layers->push_back(nn::Linear(width * 7 * 7, kHidden));
  layers->push_back(nn::ReLU());
  layers->push_back(nn::Linear(kHidden, kDigits));
  return std::make_shared<Stack>("cnn", layers);
}

std::shared_ptr<Model> make_mlp(std::int64_t count, std::int64_t width) {
  nn::Sequential layers;
  layers->push_back(nn::Flatten());
  std::int64_t from = kPixels;
  for (std::int64_t i = 0; i < count; ++i) {
    layers->push_back(nn::Linear(from, width));
    layers->push_back(nn::ReLU());
    from = width;
  }
  layers->push_back(nn::Linear(from, kDigits));
  return std::make_shared<Stack>("mlp", layers);
}

}  // namespace kith::train
