#pragma once

#include <memory>

#include "kith/train/models/model.h"

namespace kith::train {

struct TransformerOptions {
  std::int64_t layers = 6;  // of the encoder, and of the decoder
  std::int64_t heads = 8;   // divide the width
  std::int64_t width = 512;
  std::int64_t feed_forward = 2048;
  std::int64_t vocabulary = 37000;  // of both languages together
  std::int64_t context = 256;       // most tokens of a sentence
  double dropout = 0.1;
};

// The encoder-decoder of "Attention is all you need": norms after the sums, positions as sines, ReLU, and one
// table for both languages that is also the scores' matrix.
class Translator : public Model {
 public:
  using Model::Model;

  // What a decoder looks at: the encoded sentences and where they have tokens.
  struct Encoded {
    torch::Tensor states;  // (batch, length, width)
    torch::Tensor padded;  // (batch, length), true where there is no token
  };

  // Tokens: (batch, length), kNoToken where there is none.
  virtual Encoded encode(const torch::Tensor& source) = 0;
  // Scores of the token after each of `target`: (batch, length, vocabulary).
  virtual torch::Tensor decode(const Encoded& encoded, const torch::Tensor& target) = 0;

  // For training. Input: (batch, 2, length): sources, and the targets that each begin with a mark; scores:
  // (batch * length, vocabulary).
  torch::Tensor forward(const torch::Tensor& pairs) override;
};

std::shared_ptr<Translator> make_transformer(const TransformerOptions& options);

}  // namespace kith::train
