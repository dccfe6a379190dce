#include "kith/train/models/transformer.h"

#include <cmath>
#include <vector>

#include <torch/torch.h>

#include "kith/train/models/norm.h"

namespace kith::train {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

class Attention final : public nn::Module {
 public:
  explicit Attention(const TransformerOptions& options)
      : heads_(options.heads),
        dropout_(options.dropout),
        query_(register_module("query", nn::Linear(options.width, options.width))),
        key_(register_module("key", nn::Linear(options.width, options.width))),
        value_(register_module("value", nn::Linear(options.width, options.width))),
        out_(register_module("out", nn::Linear(options.width, options.width))) {}

  // `hidden`: true where x may not look, broadcast to (batch, heads, length of x, length of `at`).
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& at, const torch::Tensor& hidden) {
    const std::int64_t width = x.size(2) / heads_;
    const auto split = [&](const torch::Tensor& t) {
      return t.view({t.size(0), t.size(1), heads_, width}).transpose(1, 2);
    };
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    const torch::Tensor scores =
        torch::matmul(split(query_(x)).mul(scale), split(key_(at)).transpose(-2, -1));
    const torch::Tensor weights =
        torch::dropout(scores.masked_fill(hidden, -INFINITY).softmax(-1), dropout_, is_training());
    return out_(torch::matmul(weights, split(value_(at))).transpose(1, 2).reshape(x.sizes()));
  }

 private:
  const std::int64_t heads_;
  const double dropout_;
  nn::Linear query_, key_, value_, out_;
};

// x <- norm(x + part(x)), part by part: attention to oneself, in a decoder to the encoder, a hidden layer.
class Block final : public nn::Module {
 public:
  enum class Kind : std::uint8_t { encoder, decoder };

  Block(const TransformerOptions& options, Kind kind)
      : dropout_(options.dropout),
        own_(register_module("own", std::make_shared<Attention>(options))),
        own_norm_(register_module("own_norm", std::make_shared<Norm>(options.width, true))),
        widen_(register_module("widen", nn::Linear(options.width, options.feed_forward))),
        narrow_(register_module("narrow", nn::Linear(options.feed_forward, options.width))),
        last_norm_(register_module("last_norm", std::make_shared<Norm>(options.width, true))) {
    if (kind == Kind::encoder) return;
    cross_ = register_module("cross", std::make_shared<Attention>(options));
    cross_norm_ = register_module("cross_norm", std::make_shared<Norm>(options.width, true));
  }

  torch::Tensor forward(torch::Tensor x, const torch::Tensor& hidden) {
    x = own_norm_->forward(x + drop(own_->forward(x, x, hidden)));
    return last(x);
  }

  torch::Tensor forward(torch::Tensor x, const torch::Tensor& hidden, const torch::Tensor& encoded,
                        const torch::Tensor& encoded_hidden) {
    x = own_norm_->forward(x + drop(own_->forward(x, x, hidden)));
    x = cross_norm_->forward(x + drop(cross_->forward(x, encoded, encoded_hidden)));
    return last(x);
  }

 private:
  torch::Tensor drop(const torch::Tensor& x) { return torch::dropout(x, dropout_, is_training()); }
  torch::Tensor last(const torch::Tensor& x) {
    const torch::Tensor inner = torch::dropout(torch::relu(widen_(x)), dropout_, is_training());
    return last_norm_->forward(x + drop(narrow_(inner)));
  }

  const double dropout_;
  std::shared_ptr<Attention> own_;
  std::shared_ptr<Norm> own_norm_;
  std::shared_ptr<Attention> cross_;
  std::shared_ptr<Norm> cross_norm_;
  nn::Linear widen_, narrow_;
  std::shared_ptr<Norm> last_norm_;
};

// (length, width): sines in the even places, cosines in the odd ones.
torch::Tensor sines(std::int64_t length, std::int64_t width) {
  const torch::Tensor place = torch::arange(length, torch::kFloat32).unsqueeze(1);
  const torch::Tensor pair = torch::arange(width, torch::kInt64).div(2, "floor").to(torch::kFloat32);
  const torch::Tensor angle =
      place * torch::exp(pair * (-2 * std::log(10000.0) / static_cast<double>(width)));
  const torch::Tensor odd = torch::arange(width, torch::kInt64).remainder(2).to(torch::kBool);
  return torch::where(odd, angle.cos(), angle.sin());
}

class Transformer final : public Translator {
 public:
  explicit Transformer(const TransformerOptions& options)
      : Translator("transformer"),
        scale_(std::sqrt(static_cast<double>(options.width))),
        dropout_(options.dropout),
        table_(register_module("table", nn::Embedding(options.vocabulary, options.width))),
        // Not a buffer: it is no state.
        positions_(sines(options.context, options.width)) {
    for (std::int64_t i = 0; i < options.layers; ++i) {
      const std::string number = std::to_string(i);
      encoder_.push_back(
          register_module("encoder" + number, std::make_shared<Block>(options, Block::Kind::encoder)));
      decoder_.push_back(
          register_module("decoder" + number, std::make_shared<Block>(options, Block::Kind::decoder)));
    }
    draw(options);
  }

  Encoded encode(const torch::Tensor& source) override {
    const torch::Tensor padded = source.lt(0);
    torch::Tensor x = embed(source);
    for (const auto& block : encoder_)
      x = block->forward(x, across(padded));
    return {x, padded};
  }

  torch::Tensor decode(const Encoded& encoded, const torch::Tensor& target) override {
    const std::int64_t length = target.size(1);
    const torch::Tensor future =
        torch::ones({length, length}, target.options().dtype(torch::kBool)).triu(/*diagonal=*/1);
    torch::Tensor x = embed(target);
    for (const auto& block : decoder_)
      x = block->forward(x, future, encoded.states, across(encoded.padded));
    return F::linear(x, table_->weight);
  }

 private:
  static torch::Tensor across(const torch::Tensor& padded) { return padded.unsqueeze(1).unsqueeze(1); }

  torch::Tensor embed(const torch::Tensor& tokens) {
    if (positions_.device() != tokens.device()) positions_ = positions_.to(tokens.device());
    const torch::Tensor x = table_(tokens.clamp_min(0)) * scale_ + positions_.slice(0, 0, tokens.size(1));
    return torch::dropout(x, dropout_, is_training());
  }

  void draw(const TransformerOptions& options) {
    const torch::NoGradGuard no_grad;
    for (const auto& parameter : named_parameters()) {
      if (parameter.value().dim() >= 2) nn::init::xavier_uniform_(parameter.value());
      if (parameter.key().ends_with("bias")) parameter.value().zero_();
    }
    table_->weight.normal_(0, 1 / std::sqrt(static_cast<double>(options.width)));
  }

  const double scale_;
  const double dropout_;
  nn::Embedding table_;
  torch::Tensor positions_;
  std::vector<std::shared_ptr<Block>> encoder_;
  std::vector<std::shared_ptr<Block>> decoder_;
};

}  // namespace

torch::Tensor Translator::forward(const torch::Tensor& pairs) {
  return decode(encode(pairs.select(1, 0)), pairs.select(1, 1)).flatten(0, 1);
}

std::shared_ptr<Translator> make_transformer(const TransformerOptions& options) {
  return std::make_shared<Transformer>(options);
}

}  // namespace kith::train
