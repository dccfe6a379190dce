#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kith/engine/engine.h"

namespace at {
class Tensor;
}  // namespace at

namespace kith::train {

// Which parameters form a group, and with what numbers. A parameter belongs to the first group that takes it,
// and to the group "default" when none does.
struct GroupOptions {
  std::string name;
  std::function<bool(const std::string& name, const at::Tensor& parameter)> takes;
  std::optional<double> lr = {};  // default: Options::lr
  std::optional<double> weight_decay = {};
};

// Takes exactly these names.
GroupOptions named_group(std::string group, std::vector<std::string> parameters);

// Floating-point buffers (BatchNorm's running statistics) are never mixed in training.
//   local     they stay each worker's own, also under average() and in exports
//   averaged  under average() and in exports they are the workers' mean
enum class BufferPolicy : std::uint8_t { local, averaged };

// What a step does with gradients that hold inf or NaN: use them, or skip the move (kith/engine/engine.h).
using engine::NonFinite;

// What a step does when a neighbour is gone.
//   fail      throws Error naming it, after the step is complete: the model is whole, and may be exported
//             or dropped
//   carry_on  its weight went to oneself; StepReport::lost names it. The mean is no longer preserved
//   reform    the same in the step under way; then the others go on without it, on a schedule of their own.
//             StepReport::view counts the times, world().members are who is left. Who trains with it needs a
//             Store that outlives the worker. Where nodes are models (`inside`) and the optimizer is your
//             own: as fail
enum class OnLost : std::uint8_t { fail, carry_on, reform };

// How a model is trained, for designated initialisers: {.topology = "exp", .lr = 3e-4}. What the engine has
// too takes its defaults from there, and so does a job of `kith train`. Torch-free.
struct Options {
  // Who averages with whom; `kith topo` shows each.
  std::string topology = engine::EngineOptions{}.schedule.topology;
  // Workers per node as the topology sees them, "2,2" or "2x2". Empty: one node per machine.
  std::string nodes = {};
  std::string algorithm = engine::EngineOptions{}.algorithm;  // `kith methods` shows each
  optim::MethodOptions method = {};                           // the numbers it knows
  // "allreduce": the workers of a node average gradients and are one model, nodes average models.
  std::string inside = engine::EngineOptions{}.inside;
  // sgd, adam, adamw, accum-adam, accum-adamw; or "external" for one of your own: step(optimizer).
  std::string optimizer = optim::OptimizerOptions{}.name;
  double beta1 = optim::OptimizerOptions{}.beta1;  // adam family
  double beta2 = optim::OptimizerOptions{}.beta2;
  double eps = optim::OptimizerOptions{}.eps;
  int commit_every = optim::OptimizerOptions{}.commit_every;  // accum-adam, accum-adamw
  double momentum = optim::OptimizerOptions{}.momentum;       // sgd
  double dampening = optim::OptimizerOptions{}.dampening;
  bool nesterov = optim::OptimizerOptions{}.nesterov;
  // What travels: bf16, fp16, and of models int8; nothing: in full, the parameters' own type (fp32 for 16-bit
  // parameters).
  std::optional<DType> wire = engine::EngineOptions{}.wire;
  // In place of a wire: differences by this codec, such as "sign" or "qsgd 4" (kith/kernels/codec.h).
  std::string codec = engine::EngineOptions{}.codec;
  double consensus_step = engine::EngineOptions{}.consensus_step;  // with a codec; 0: the codec's own
  double lr = 1e-3;
  double weight_decay = 0.1;
  std::vector<GroupOptions> groups = {};
  BufferPolicy buffers = BufferPolicy::averaged;
  NonFinite non_finite = NonFinite::skip;
  OnLost on_lost = OnLost::reform;
  // A checkpoint folder (kith/train/checkpoint.h) to go on from; empty: a fresh start. Another number of
  // workers than saved it may go on: all begin with the mean model and the mean moments, and rank 0 logs a
  // warning for each thing that is not kept (docs/checkpoint-format.md).
  std::filesystem::path resume_from = {};

  // Seldom needed; kith/engine/options.h and kith/graph/schedule.h say more.
  std::string name = engine::EngineOptions{}.name;  // tells several models of a process apart
  int mix_every = engine::EngineOptions{}.mix_every;
  std::string trigger = engine::EngineOptions{}.trigger;  // in place of mix_every: kith/optim/trigger.h
  std::string control = engine::EngineOptions{}.control;  // of the consensus: kith/optim/control.h
  bool stagger = engine::EngineOptions{}.stagger;
  Clock::Duration patience = engine::EngineOptions{}.patience;  // with a neighbour that is alive
  bool patience_adapts = engine::EngineOptions{}.patience_adapts;
  std::size_t bucket_bytes = engine::EngineOptions{}.bucket_bytes;
  engine::Layout layout = engine::EngineOptions{}.layout;
  bool same_start = engine::EngineOptions{}.same_start;
  std::uint64_t topology_seed = graph::ScheduleOptions{}.seed;
  int degree = graph::ScheduleOptions{}.degree;
  double edge_probability = graph::ScheduleOptions{}.edge_probability;
  int centres = graph::ScheduleOptions{}.centres;
  std::string topology_file = {};
};

// Options{}, made once: a Job has a default from it in every line, and making as many is long to compile.
const Options& default_options();

// The engine's part of it, for workers on these machines (by rank, numbered from 0 by their first worker).
// Where `nodes` is empty and the workers of a machine do not follow each other, the topology sees one node,
// and the log says so. InputError when `nodes` cannot be read.
engine::EngineOptions engine_options(const Options& options, std::span<const int> machines, Log& log);

}  // namespace kith::train
