#include "bench/gpu_training/trainee.h"

#include <chrono>
#include <utility>

#include <torch/cuda.h>
#include <torch/torch.h>

#include "bench/common/contestant.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/compat.h"
#include "kith/train/cross_entropy.h"
#include "kith/train/models/gpt.h"
#include "kith/train/models/resnet.h"

namespace kith::bench {
namespace {

constexpr std::uint64_t kSeed = 7;

struct Lesson {
  std::shared_ptr<torch::nn::Module> net;
  train::Batch batch;
  std::function<torch::Tensor(const train::Batch&)> loss;
};

Lesson make_mlp(const GpuJob& job, int rank, torch::Device device) {
  torch::nn::Sequential net;
  for (std::int64_t l = 0; l < job.layers; ++l) {
    if (l > 0) net->push_back(torch::nn::ReLU());
    net->push_back(torch::nn::Linear(job.width, job.width));
  }
  net->to(device);
  torch::manual_seed(kSeed + 1 + static_cast<std::uint64_t>(rank));
  const torch::Tensor x = torch::randn({job.batch, job.width}).to(device);
  const torch::Tensor y = torch::randn({job.batch, job.width}).to(device);
  return {net.ptr(), {x, y}, [net](const train::Batch& batch) mutable {
            return torch::mse_loss(net->forward(batch.input), batch.target);
          }};
}

// Tokens first, first + 1, ... of the formula in job.h.
torch::Tensor tokens_from(std::int64_t first, std::int64_t count, std::int64_t vocabulary) {
  constexpr std::int64_t kPeriod = std::int64_t{1} << 31;
  const torch::Tensor k = torch::arange(first, first + count, torch::kInt64);
  const torch::Tensor u = (k * 1103515245 + 12345).remainder(kPeriod).to(torch::kFloat64) / kPeriod;
  return (u * u * u * vocabulary).floor().to(torch::kInt64);
}

Lesson make_gpt(const GpuJob& job, int rank, torch::Device device) {
  const auto net = train::make_gpt({.layers = job.layers,
                                    .heads = job.heads,
                                    .width = job.width,
                                    .context = job.context,
                                    .vocabulary = job.vocabulary,
                                    .bias = false});
  net->to(device);
  const torch::Tensor tokens = tokens_from(rank * job.tokens(), job.tokens() + 1, job.vocabulary).to(device);
  const torch::Tensor x = tokens.slice(0, 0, -1).view({job.batch, job.context});
  const torch::Tensor y = tokens.slice(0, 1).contiguous();
  return {net, {x, y}, [net, device](const train::Batch& batch) {
            const train::compat::Autocast autocast(device.type(), torch::kBFloat16);
            return train::cross_entropy(net->forward(batch.input), batch.target);
          }};
}

Lesson make_resnet(const GpuJob& job, torch::Device device) {
  const auto net = train::make_resnet({});
  net->to(device);
  const torch::Tensor x = torch::randn({job.batch, 3, job.width, job.width})
                              .to(device)
                              .contiguous(torch::MemoryFormat::ChannelsLast);
  const torch::Tensor y = torch::arange(job.batch, torch::kInt64).remainder(1000).to(device);
  return {net, {x, y}, [net, device](const train::Batch& batch) {
            const train::compat::Autocast autocast(device.type(), torch::kBFloat16);
            return train::cross_entropy(net->forward(batch.input), batch.target);
          }};
}

Lesson make_lesson(const GpuJob& job, int rank) {
  torch::manual_seed(kSeed);
  const torch::Device device(job.device);
  if (job.model == "resnet50") return make_resnet(job, device);
  return job.model == "gpt" ? make_gpt(job, rank, device) : make_mlp(job, rank, device);
}

}  // namespace

Trainee::Trainee(const engine::WorldParts& world, const GpuJob& job, const std::string& mode)
    : world_(world), job_(job) {
  Lesson lesson = make_lesson(job, world.rank());
  net_ = std::move(lesson.net);
  batch_ = std::move(lesson.batch);
  loss_ = std::move(lesson.loss);
  train::Options options = options_for(mode, shape_for(mode, world.size()));
  // As `kith train` does it.
  const bool records = job.model != "mlp" && train::graphs_obstacle(torch::Device(job.device)).empty();
  if (records) {
    options.layout = engine::Layout::staged;
    graphs_ = std::make_unique<train::GradientGraphs>(net_->parameters(), loss_);
  }
  options.lr = GpuJob::kLr;
  options.patience = std::chrono::seconds(30);
  model_ = std::make_unique<train::DecentralizedDataParallel>(net_, world, options);
}

std::int64_t Trainee::parameters() const {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : net_->parameters())
    count += parameter.numel();
  return count;
}

void Trainee::wait_for_device() const {
  if (job_.device == "cuda") torch::cuda::synchronize();
}

void Trainee::step(Lap& lap) {
  model_->zero_grad();
  torch::Tensor loss;
  if (graphs_) {
    loss = graphs_->run(batch_, 1);
  } else {
    loss = loss_(batch_);
    loss.backward();
  }
  const Clock::Time before = world_.clock->now();
  const train::StepReport report = model_->step();
  lap.stepped += seconds(world_.clock->now() - before);
  lap.waited += seconds(report.waited);
  if (!report.late.empty()) throw Error(cat(report.late.front(), " was late"), cat("step ", report.step));
  last_loss_ = loss.detach();  // of a recorded pass: what the pass of the next step writes over
}

Lap Trainee::run(int untimed, int timed) {
  Lap warming;
  for (int i = 0; i < untimed; ++i)
    step(warming);
  wait_for_device();
  model_->barrier();
  Lap lap;
  const Clock::Time start = world_.clock->now();
  for (int i = 0; i < timed; ++i)
    step(lap);
  wait_for_device();
  lap.seconds = seconds(world_.clock->now() - start);
  lap.loss = last_loss_.item<double>();
  return lap;
}

}  // namespace kith::bench
