#include "kith/train/models/model.h"

#include <mutex>

#include <torch/torch.h>

#include "kith/base/error.h"
#include "kith/train/models/gpt.h"
#include "kith/train/models/vision.h"

namespace kith::train {
namespace {

std::shared_ptr<Model> draw_model(const Job& job) {
  if (job.model.name == "gpt") {
    return make_gpt({.layers = job.model.layers,
                     .heads = job.model.heads,
                     .width = job.model.width,
                     .context = job.model.context,
                     .dropout = job.model.dropout});
  }
  if (job.model.name == "cnn") return make_cnn(job.model.width);
  if (job.model.name == "mlp") return make_mlp(job.model.layers, job.model.width);
  throw InputError("'" + job.model.name + "' is not a model", "model.name", "one of: gpt, cnn, mlp");
}

}  // namespace

std::shared_ptr<Model> make_model(const Job& job) {
  static std::mutex turn;  // guards torch's generator, which is the process's own
  const std::lock_guard lock(turn);
  torch::manual_seed(static_cast<std::uint64_t>(job.train.seed));
  return draw_model(job);
}

std::int64_t parameter_count(const torch::nn::Module& model) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters())
    count += parameter.numel();
  return count;
}

}  // namespace kith::train
