#include "kith/train/run/model_pass.h"

#include <algorithm>
#include <optional>

#include <torch/cuda.h>

#include "kith/base/error.h"
#include "kith/base/signal_hold.h"
#include "kith/train/compat.h"
#include "kith/train/cross_entropy.h"
#include "kith/train/data/dataset.h"
#include "kith/train/models/model.h"

namespace kith::train {

int gpus_here() {
  const SignalHold hold;  // the first call starts a thread of CUDA's, under MPS
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  if (gpus == 0)
    throw InputError("no GPU here", "world.device", "cpu; or a kith and a LibTorch built with CUDA");
  return gpus;
}

torch::Device device_for(const Job& job, const engine::WorldParts& world) {
  if (job.world.device == "cpu") return torch::kCPU;
  const int gpus = gpus_here();
  const std::vector<WorkerId>& workers = world.transport->workers();
  const std::vector<int>& machines = world.transport->machines();
  const auto self = static_cast<std::size_t>(std::ranges::find(workers, world.self()) - workers.begin());
  const auto before =
      std::count(machines.begin(), machines.begin() + static_cast<std::ptrdiff_t>(self), machines[self]);
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(before % gpus)};
}

std::shared_ptr<Model> model_on(torch::Device device, const Job& job) {
  std::shared_ptr<Model> model = make_model(job);
  model->to(device);
  return model;
}

torch::Tensor loss_of(const Job& job, Model& model, const Batch& batch) {
  std::optional<compat::Autocast> autocast;
  if (job.train.precision != "fp32") {
    autocast.emplace(batch.input.device().type(),
                     job.train.precision == "fp16" ? torch::kFloat16 : torch::kBFloat16);
  }
  const torch::Tensor scores = model.forward(batch.input);
  const bool plain = job.train.label_smoothing > 0 || job.data.name == "pairs";  // which have padding
  return plain ? plain_cross_entropy(scores, batch.target, job.train.label_smoothing)
               : cross_entropy(scores, batch.target);
}

void wait_for(torch::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

}  // namespace kith::train
