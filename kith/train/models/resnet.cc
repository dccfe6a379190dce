#include "kith/train/models/resnet.h"

#include <array>
#include <vector>

#include <torch/torch.h>

#include "kith/base/check.h"

namespace kith::train {
namespace {

namespace nn = torch::nn;

nn::Conv2d convolution(std::int64_t from, std::int64_t to, std::int64_t side, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(from, to, side).stride(stride).padding(side / 2).bias(false));
}

// Convolutions with norms, the last added to what came in; ReLU after each norm and after the sum.
class Residual final : public nn::Module {
 public:
  struct Step {
    std::int64_t to, side, stride;
  };

  Residual(std::int64_t from, const std::vector<Step>& steps) {
    std::int64_t stride = 1, width = from;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      const std::string number = std::to_string(i + 1);
      convolutions_.push_back(
          register_module("conv" + number, convolution(width, step.to, step.side, step.stride)));
      norms_.push_back(register_module("bn" + number, nn::BatchNorm2d(step.to)));
      stride *= step.stride;
      width = step.to;
    }
    if (stride != 1 || width != from) {
      shortcut_ = register_module(
          "downsample", nn::Sequential(convolution(from, width, 1, stride), nn::BatchNorm2d(width)));
    }
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = x;
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      y = norms_[i](convolutions_[i](y));
      if (i + 1 < convolutions_.size()) y.relu_();
    }
    return y.add_(shortcut_.is_empty() ? x : shortcut_->forward(x)).relu_();
  }

 private:
  std::vector<nn::Conv2d> convolutions_;
  std::vector<nn::BatchNorm2d> norms_;
  nn::Sequential shortcut_{nullptr};
};

class ResNet final : public Model {
 public:
  explicit ResNet(const ResNetOptions& options)
      : Model("resnet"),
        options_(options),
        first_(register_module("conv1", options.small_stem ? convolution(options.channels, 64, 3, 1)
                                                           : convolution(options.channels, 64, 7, 2))),
        first_norm_(register_module("bn1", nn::BatchNorm2d(64))) {
    constexpr std::array<int, 4> kBasic{2, 2, 2, 2}, kDeep{3, 4, 6, 3};
    const bool deep = options.depth == 50;
    std::int64_t from = 64, inner = 64;
    for (std::size_t stage = 0; stage < 4; ++stage, inner *= 2) {
      nn::Sequential blocks;
      for (int i = 0; i < (deep ? kDeep : kBasic)[stage]; ++i) {
        const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        const std::vector<Residual::Step> steps =
            deep ? std::vector<Residual::Step>{{inner, 1, 1}, {inner, 3, stride}, {4 * inner, 1, 1}}
                 : std::vector<Residual::Step>{{inner, 3, stride}, {inner, 3, 1}};
        blocks->push_back(std::make_shared<Residual>(from, steps));
        from = steps.back().to;
      }
      stages_.push_back(register_module("layer" + std::to_string(stage + 1), blocks));
    }
    last_ = register_module("fc", nn::Linear(from, options.classes));
    draw();
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    torch::Tensor x = options_.channels_last ? images.contiguous(torch::MemoryFormat::ChannelsLast) : images;
    x = first_norm_(first_(x)).relu_();
    if (!options_.small_stem) x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
    for (nn::Sequential& stage : stages_)
      x = stage->forward(x);
    return last_(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  void draw() {
    const torch::NoGradGuard no_grad;
    for (const auto& module : modules(/*include_self=*/false)) {
      auto* const found = module->as<nn::Conv2d>();
      if (!found) continue;
      nn::init::kaiming_normal_(found->weight, 0, torch::kFanOut, torch::kReLU);
      if (options_.channels_last)
        found->weight.set_data(found->weight.contiguous(torch::MemoryFormat::ChannelsLast));
    }
  }

  const ResNetOptions options_;
  nn::Conv2d first_;
  nn::BatchNorm2d first_norm_;
  std::vector<nn::Sequential> stages_;
  nn::Linear last_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_resnet(const ResNetOptions& options) {
  KITH_CHECK(options.depth == 18 || options.depth == 50, "a ResNet of 18 or 50 layers");
  return std::make_shared<ResNet>(options);
}

}  // namespace kith::train
