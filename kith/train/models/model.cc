#include "kith/train/models/model.h"

#include <mutex>

#include <torch/torch.h>

#include "kith/base/error.h"
#include "kith/train/models/gpt.h"
#include "kith/train/models/resnet.h"
#include "kith/train/models/transformer.h"
#include "kith/train/models/vision.h"
#include "kith/train/weights.h"

namespace kith::train {
namespace {

std::shared_ptr<Model> draw_model(const Job& job) {
  const auto& m = job.model;
  if (m.name == "gpt") {
    return make_gpt({.layers = m.layers,
                     .heads = m.heads,
                     .width = m.width,
                     .context = m.context,
                     .vocabulary = m.vocabulary,
                     .dropout = m.dropout,
                     .feed_forward = m.feed_forward,
                     .bias = m.bias,
                     .tanh_gelu = m.gelu == "tanh"});
  }
  if (m.name == "transformer") return make_translator(job);
  if (m.name == "resnet18" || m.name == "resnet50") {
    return make_resnet({.depth = m.name == "resnet18" ? 18 : 50,
                        .channels = image_channels(job),
                        .classes = m.classes,
                        .small_stem = m.stem == "small",
                        .channels_last = m.channels_last});
  }
  if (m.name == "cnn") return make_cnn(m.width);
  if (m.name == "mlp") return make_mlp(m.layers, m.width);
  throw InputError("'" + m.name + "' is not a model", "model.name",
                   "one of: gpt, transformer, cnn, mlp, resnet18, resnet50");
}

}  // namespace

std::shared_ptr<Model> make_model(const Job& job) {
  static std::mutex turn;  // guards torch's generator, which is the process's own
  const std::lock_guard lock(turn);
  torch::manual_seed(static_cast<std::uint64_t>(job.train.seed));
  std::shared_ptr<Model> model = draw_model(job);
  if (!job.model.weights.empty()) load_weights(*model, job.model.weights);
  return model;
}

std::shared_ptr<Translator> make_translator(const Job& job) {
  return make_transformer({.layers = job.model.layers,
                           .heads = job.model.heads,
                           .width = job.model.width,
                           .feed_forward = hidden_width(job),
                           .vocabulary = job.model.vocabulary,
                           .context = job.model.context,
                           .dropout = job.model.dropout});
}

std::int64_t parameter_count(const torch::nn::Module& model) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters())
    count += parameter.numel();
  return count;
}

}  // namespace kith::train
