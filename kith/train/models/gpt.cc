#include "kith/train/models/gpt.h"

#include <cmath>

#include <torch/torch.h>

#include "kith/train/compat.h"
#include "kith/train/models/cpu_passes.h"
#include "kith/train/models/norm.h"

namespace kith::train {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

constexpr double kInitialDeviation = 0.02;

nn::Linear linear(const GptOptions& options, std::int64_t from, std::int64_t to) {
  return nn::Linear(nn::LinearOptions(from, to).bias(options.bias));
}

std::int64_t hidden(const GptOptions& options) {
  return options.feed_forward > 0 ? options.feed_forward : 4 * options.width;
}

std::shared_ptr<Norm> norm(const GptOptions& options) {
  return std::make_shared<Norm>(options.width, options.bias);
}

class Attention final : public nn::Module {
 public:
  explicit Attention(const GptOptions& options)
      : heads_(options.heads),
        dropout_(options.dropout),
        query_key_value_(
            register_module("query_key_value", linear(options, options.width, 3 * options.width))),
        out_(register_module("out", linear(options, options.width, options.width))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const auto batch = x.size(0), length = x.size(1), width = x.size(2);
    const auto split = [&](const torch::Tensor& t) {
      return t.view({batch, length, heads_, width / heads_}).transpose(1, 2);
    };
    const torch::Tensor all = query_key_value_(x);
    if ((dropout_ == 0 || !is_training()) && fits_attention_on_cpu(all, heads_))
      return out_(causal_attention_on_cpu(all, heads_));
    const auto parts = all.chunk(3, /*dim=*/2);
    const torch::Tensor seen = compat::causal_attention(split(parts[0]), split(parts[1]), split(parts[2]),
                                                        is_training() ? dropout_ : 0);
    return out_(seen.transpose(1, 2).reshape({batch, length, width}));
  }

  nn::Linear& out() { return out_; }

 private:
  const std::int64_t heads_;
  const double dropout_;
  nn::Linear query_key_value_;
  nn::Linear out_;
};

class Block final : public nn::Module {
 public:
  explicit Block(const GptOptions& options)
      : dropout_(options.dropout),
        gelu_(options.tanh_gelu ? "tanh" : "none"),
        attention_norm_(register_module("attention_norm", norm(options))),
        attention_(register_module("attention", std::make_shared<Attention>(options))),
        mlp_norm_(register_module("mlp_norm", norm(options))),
        widen_(register_module("widen", linear(options, options.width, hidden(options)))),
        narrow_(register_module("narrow", linear(options, hidden(options), options.width))) {}

  // The residual stream is x + delta: whoever norms it next adds them up, in the same pass over memory.
  void forward(torch::Tensor& x, torch::Tensor& delta) {
    const AddNorm before = attention_norm_->after_adding(x, delta);
    delta = torch::dropout(attention_->forward(before.normed), dropout_, is_training());
    const AddNorm between = mlp_norm_->after_adding(before.sum, delta);
    const torch::Tensor wide = widen_(between.normed);
    const torch::Tensor hidden = gelu_ == "none" ? exact_gelu(wide) : torch::gelu(wide, gelu_);
    delta = torch::dropout(narrow_(hidden), dropout_, is_training());
    x = between.sum;
  }

  // The layers that write into the residual stream.
  std::vector<nn::Linear> writers() { return {attention_->out(), narrow_}; }

 private:
  const double dropout_;
  const std::string gelu_;  // as torch::gelu calls its ways
  std::shared_ptr<Norm> attention_norm_;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Norm> mlp_norm_;
  nn::Linear widen_;
  nn::Linear narrow_;
};

class Gpt final : public Model {
 public:
  explicit Gpt(const GptOptions& options)
      : Model("gpt"),
        dropout_(options.dropout),
        table_(register_module("table", nn::Embedding(options.vocabulary, options.width))),
        positions_(register_module("positions", nn::Embedding(options.context, options.width))),
        norm_(register_module("norm", norm(options))) {
    for (std::int64_t i = 0; i < options.layers; ++i) {
      blocks_.push_back(std::make_shared<Block>(options));
      register_module("block" + std::to_string(i), blocks_.back());
    }
    draw();
  }

  torch::Tensor forward(const torch::Tensor& tokens) override {
    torch::Tensor x = table_(tokens) + positions_->weight.slice(0, 0, tokens.size(1));
    x = torch::dropout(x, dropout_, is_training());
    torch::Tensor delta;
    for (const auto& block : blocks_)
      block->forward(x, delta);
    return F::linear(norm_->after_adding(x, delta).normed, table_->weight).flatten(0, 1);
  }

 private:
  void draw() {
    const torch::NoGradGuard no_grad;
    for (const auto& parameter : named_parameters()) {
      if (parameter.value().dim() >= 2) parameter.value().normal_(0, kInitialDeviation);
      if (parameter.key().ends_with("bias")) parameter.value().zero_();
    }
    // Keeps the residual stream's size independent of the depth (GPT-2).
    const double shrink = 1 / std::sqrt(2.0 * static_cast<double>(blocks_.size()));
    for (const auto& block : blocks_) {
      for (nn::Linear& writer : block->writers())
        writer->weight.mul_(shrink);
    }
  }

  const double dropout_;
  nn::Embedding table_;
  nn::Embedding positions_;
  std::shared_ptr<Norm> norm_;
  std::vector<std::shared_ptr<Block>> blocks_;
};

}  // namespace

std::shared_ptr<Model> make_gpt(const GptOptions& options) {
  return std::make_shared<Gpt>(options);
}

}  // namespace kith::train
