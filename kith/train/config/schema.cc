#include "kith/train/config/schema.h"

#include <algorithm>
#include <array>

#include "kith/comm/device_backends.h"
#include "kith/engine/options.h"
#include "kith/graph/schedule.h"
#include "kith/optim/algorithm.h"
#include "kith/optim/options.h"

namespace kith::train {
namespace {

using Names = std::vector<std::string>;

Names backend_names() {
  Names names{"automatic"};
  for (const std::span<const comm::Backend> table : {comm::backends(), comm::device_backends()}) {
    for (const comm::Backend& backend : table)
      names.emplace_back(backend.name);
  }
  return names;
}

const std::array kSchema{
    Key{.name = "world.workers",
        .field = [](Job& j) -> Field { return &j.world.workers; },
        .doc = "How many workers train together.",
        .interval = "[1, 4096]",
        .free_on_resume = true},
    Key{.name = "world.nodes",
        .field = [](Job& j) -> Field { return &j.world.nodes; },
        .doc = "Workers per node as the topology sees them, such as \"2,2\" or \"2x2\"; empty for one node.",
        .text = TextKind::shape,
        .free_on_resume = true},
    Key{.name = "world.backend",
        .field = [](Job& j) -> Field { return &j.world.backend; },
        .doc = "How workers reach each other: processes of a machine over shm, or over cuda_ipc where the "
               "models "
               "lie on its GPUs; threads over inproc, machines over routed. automatic takes what fits.",
        .choices = backend_names},
    Key{.name = "world.device",
        .field = [](Job& j) -> Field { return &j.world.device; },
        .doc = "Where the models lie and compute; the workers of a machine share its GPUs in turn.",
        .choices =
            [] {
              return Names{"cpu", "cuda"};
            }},
    Key{.name = "world.compute_threads",
        .field = [](Job& j) -> Field { return &j.world.compute_threads; },
        .doc = "Threads that each worker computes with.",
        .interval = "[1, 1024]",
        .free_on_resume = true},

    Key{.name = "model.name",
        .field = [](Job& j) -> Field { return &j.model.name; },
        .doc = "gpt reads bytes of text; cnn and mlp read images.",
        .choices =
            [] {
              return Names{"gpt", "cnn", "mlp"};
            }},
    Key{.name = "model.layers",
        .field = [](Job& j) -> Field { return &j.model.layers; },
        .doc = "gpt: transformer blocks. mlp: hidden layers.",
        .interval = "[1, 200]"},
    Key{.name = "model.heads",
        .field = [](Job& j) -> Field { return &j.model.heads; },
        .doc = "gpt: attention heads; they divide the width.",
        .interval = "[1, 256]"},
    Key{.name = "model.width",
        .field = [](Job& j) -> Field { return &j.model.width; },
        .doc = "gpt, mlp: size of a hidden vector. cnn: channels of the second convolution.",
        .interval = "[1, 65536]"},
    Key{.name = "model.context",
        .field = [](Job& j) -> Field { return &j.model.context; },
        .doc = "gpt: bytes it looks back.",
        .interval = "[1, 65536]"},
    Key{.name = "model.dropout",
        .field = [](Job& j) -> Field { return &j.model.dropout; },
        .doc = "gpt: share of activations dropped in training. Above 0 the workers must be processes.",
        .interval = "[0, 1)"},
    Key{.name = "model.buffers",
        .field = [](Job& j) -> Field { return &j.model.buffers; },
        .doc = "Batch-norm statistics in evaluation: each worker's own, or averaged over the workers.",
        .choices =
            [] {
              return Names{"local", "averaged"};
            }},

    Key{.name = "data.name",
        .field = [](Job& j) -> Field { return &j.data.name; },
        .doc = "text for gpt, mnist for cnn and mlp.",
        .choices =
            [] {
              return Names{"text", "mnist"};
            }},
    Key{.name = "data.path",
        .field = [](Job& j) -> Field { return &j.data.path; },
        .doc = "A text file, or the folder of the four IDX files; empty for the shipped text, or for where "
               "`kith "
               "data mnist` puts the files.",
        .text = TextKind::path},
    Key{.name = "data.validation",
        .field = [](Job& j) -> Field { return &j.data.validation; },
        .doc = "text: share of the file, from its end, that is kept for validation.",
        .interval = "(0, 0.9]"},

    Key{.name = "train.steps",
        .field = [](Job& j) -> Field { return &j.train.steps; },
        .doc = "Optimizer steps; epochs decides instead when it is above 0.",
        .interval = "[1, 1e12]",
        .free_on_resume = true},
    Key{.name = "train.epochs",
        .field = [](Job& j) -> Field { return &j.train.epochs; },
        .doc = "Passes over the data; 0 to count in steps.",
        .interval = "[0, 1e6]",
        .free_on_resume = true},
    Key{.name = "train.seconds",
        .field = [](Job& j) -> Field { return &j.train.seconds; },
        .doc = "Time to train for, without evaluations and checkpoints; it decides instead of steps and "
               "epochs when it is above 0, and the learning rate's curve ends with it.",
        .interval = "[0, inf)",
        .free_on_resume = true},
    Key{.name = "train.batch",
        .field = [](Job& j) -> Field { return &j.train.batch; },
        .doc = "Samples per worker, step and accumulation.",
        .interval = "[1, 1000000]"},
    Key{.name = "train.accumulate",
        .field = [](Job& j) -> Field { return &j.train.accumulate; },
        .doc = "Batches whose gradients are averaged into one step.",
        .interval = "[1, 100000]"},
    Key{.name = "train.precision",
        .field = [](Job& j) -> Field { return &j.train.precision; },
        .doc =
            "Arithmetic of forward and backward passes; parameters and their steps are fp32. fp16 scales the "
            "loss and needs a GPU.",
        .choices =
            [] {
              return Names{"fp32", "bf16", "fp16"};
            }},
    Key{.name = "train.clip",
        .field = [](Job& j) -> Field { return &j.train.clip; },
        .doc = "Largest norm of the gradient of the whole model; 0 for no limit.",
        .interval = "[0, inf)"},
    Key{.name = "train.non_finite",
        .field = [](Job& j) -> Field { return &j.train.non_finite; },
        .doc = "A gradient with inf or NaN: skip mixes without moving, use does what plain arithmetic does.",
        .choices =
            [] {
              return Names{"skip", "use"};
            }},
    Key{.name = "train.eval_every",
        .field = [](Job& j) -> Field { return &j.train.eval_every; },
        .doc = "Steps between evaluations of the averaged model; 0 for the end only. With train.seconds they "
               "come at its eighths instead.",
        .interval = "[0, 1e12]",
        .free_on_resume = true},
    Key{.name = "train.eval_samples",
        .field = [](Job& j) -> Field { return &j.train.eval_samples; },
        .doc = "Validation samples in an evaluation, shared among the workers; 0 for all.",
        .interval = "[0, 1e12]",
        .free_on_resume = true},
    Key{.name = "train.seed",
        .field = [](Job& j) -> Field { return &j.train.seed; },
        .doc = "Decides the initial model, the order of the data, and dropout.",
        .interval = "[0, inf)"},

    Key{.name = "algorithm.name",
        .field = [](Job& j) -> Field { return &j.algorithm.name; },
        .doc = "How workers combine: awc, atc, dsgt and sgp with neighbours, allreduce with everybody, none "
               "not at all.",
        .choices = optim::algorithm_names},
    Key{.name = "algorithm.inside",
        .field = [](Job& j) -> Field { return &j.algorithm.inside; },
        .doc = "allreduce: the workers of a node average gradients and are one model, nodes average models.",
        .choices = engine::inside_names},
    Key{.name = "algorithm.mix_every",
        .field = [](Job& j) -> Field { return &j.algorithm.mix_every; },
        .doc = "Steps between rounds of mixing.",
        .interval = "[1, 1000000]"},
    Key{.name = "algorithm.stagger",
        .field = [](Job& j) -> Field { return &j.algorithm.stagger; },
        .doc =
            "Parts of the model are at different rounds of the schedule, so that every step sends the same."},
    Key{.name = "algorithm.patience_seconds",
        .field = [](Job& j) -> Field { return &j.algorithm.patience_seconds; },
        .doc = "How long a step waits for a neighbour that lives; a dead one is noticed at once.",
        .interval = "(0, 86400]",
        .free_on_resume = true},

    Key{.name = "optimizer.name",
        .field = [](Job& j) -> Field { return &j.optimizer.name; },
        .doc = "The local rule that turns a gradient into a step.",
        .choices = optim::optimizer_names},
    Key{.name = "optimizer.weight_decay",
        .field = [](Job& j) -> Field { return &j.optimizer.weight_decay; },
        .doc = "Decay of parameters with two or more dimensions.",
        .interval = "[0, inf)"},
    Key{.name = "optimizer.momentum",
        .field = [](Job& j) -> Field { return &j.optimizer.momentum; },
        .doc = "sgd: momentum.",
        .interval = "[0, 1)"},
    Key{.name = "optimizer.dampening",
        .field = [](Job& j) -> Field { return &j.optimizer.dampening; },
        .doc = "sgd: dampening of the momentum.",
        .interval = "[0, 1]"},
    Key{.name = "optimizer.nesterov",
        .field = [](Job& j) -> Field { return &j.optimizer.nesterov; },
        .doc = "sgd: Nesterov's momentum."},
    Key{.name = "optimizer.beta1",
        .field = [](Job& j) -> Field { return &j.optimizer.beta1; },
        .doc = "adam family: decay of the first moment.",
        .interval = "[0, 1)"},
    Key{.name = "optimizer.beta2",
        .field = [](Job& j) -> Field { return &j.optimizer.beta2; },
        .doc = "adam family: decay of the second moment.",
        .interval = "[0, 1)"},
    Key{.name = "optimizer.eps",
        .field = [](Job& j) -> Field { return &j.optimizer.eps; },
        .doc = "adam family: added to the root of the second moment.",
        .interval = "(0, 1]"},
    Key{.name = "optimizer.commit_every",
        .field = [](Job& j) -> Field { return &j.optimizer.commit_every; },
        .doc = "accum-adam, accum-adamw: steps between commits of the moments.",
        .interval = "[1, 1000000]"},

    Key{.name = "optimizer.noise_every",
        .field = [](Job& j) -> Field { return &j.optimizer.noise_every; },
        .doc = "adam family, averaging models: steps between measurements of the gradients' noise, which the "
               "rates are corrected for; 0 for none.",
        .interval = "[0, 1000000]"},

    Key{.name = "rate.curve",
        .field = [](Job& j) -> Field { return &j.rate.curve; },
        .doc = "How the learning rate goes after the warm-up.",
        .choices =
            [] {
              return Names{"constant", "cosine", "inverse-sqrt", "step"};
            }},
    Key{.name = "rate.lr",
        .field = [](Job& j) -> Field { return &j.rate.lr; },
        .doc = "The largest learning rate.",
        .interval = "(0, inf)"},
    Key{.name = "rate.warmup",
        .field = [](Job& j) -> Field { return &j.rate.warmup; },
        .doc = "Steps of linear warm-up; -1 for a tenth of the steps. inverse-sqrt needs at least 1.",
        .interval = "[-1, 1e12]"},
    Key{.name = "rate.final_fraction",
        .field = [](Job& j) -> Field { return &j.rate.final_fraction; },
        .doc = "cosine: the last learning rate over the largest.",
        .interval = "[0, 1]"},
    Key{.name = "rate.every",
        .field = [](Job& j) -> Field { return &j.rate.every; },
        .doc = "step: steps between drops.",
        .interval = "[1, 1e12]"},
    Key{.name = "rate.factor",
        .field = [](Job& j) -> Field { return &j.rate.factor; },
        .doc = "step: what a drop multiplies the learning rate by.",
        .interval = "(0, 1]"},

    Key{.name = "topology.name",
        .field = [](Job& j) -> Field { return &j.topology.name; },
        .doc = "Who mixes with whom (kith topo shows them); allreduce and none do not use it.",
        .choices = graph::schedule_names},
    Key{.name = "topology.seed",
        .field = [](Job& j) -> Field { return &j.topology.seed; },
        .doc = "For topologies that draw.",
        .interval = "[0, inf)"},
    Key{.name = "topology.degree",
        .field = [](Job& j) -> Field { return &j.topology.degree; },
        .doc = "base: peers per round. random-directed: out-neighbours.",
        .interval = "[1, 4096]"},
    Key{.name = "topology.edge_probability",
        .field = [](Job& j) -> Field { return &j.topology.edge_probability; },
        .doc = "erdos-renyi; 0 picks 2 ln(n) / n.",
        .interval = "[0, 1]"},
    Key{.name = "topology.centres",
        .field = [](Job& j) -> Field { return &j.topology.centres; },
        .doc = "sun: workers in the centre.",
        .interval = "[1, 4096]"},
    Key{.name = "topology.file",
        .field = [](Job& j) -> Field { return &j.topology.file; },
        .doc = "file: the JSON file of rounds or edges.",
        .text = TextKind::path},

    Key{.name = "wire.type",
        .field = [](Job& j) -> Field { return &j.wire.type; },
        .doc = "What travels; full for the precision of the parameters.",
        .choices =
            [] {
              return Names{"full", "fp32", "bf16", "fp16"};
            }},
    Key{.name = "wire.bucket",
        .field = [](Job& j) -> Field { return &j.wire.bucket; },
        .doc = "Size of the blocks that parameters travel in; a small model is cut finer, so that staggered "
               "rounds and all-reduce have several.",
        .text = TextKind::bytes},
    Key{.name = "wire.layout",
        .field = [](Job& j) -> Field { return &j.wire.layout; },
        .doc = "alternating: the parameters are what neighbours read; staged: they read a copy.",
        .choices =
            [] {
              return Names{"automatic", "alternating", "staged"};
            }},

    Key{.name = "checkpoint.every",
        .field = [](Job& j) -> Field { return &j.checkpoint.every; },
        .doc =
            "Steps between checkpoints; 0 for none by steps. The end of a run and a stop save in any case.",
        .interval = "[0, 1e12]",
        .free_on_resume = true},
    Key{.name = "checkpoint.minutes",
        .field = [](Job& j) -> Field { return &j.checkpoint.minutes; },
        .doc = "Minutes without a checkpoint after which the workers save; 0 for none by time.",
        .interval = "[0, 1000000]",
        .free_on_resume = true},
    Key{.name = "checkpoint.keep",
        .field = [](Job& j) -> Field { return &j.checkpoint.keep; },
        .doc = "How many of the newest to keep.",
        .interval = "[1, 1000000]",
        .free_on_resume = true},
    Key{.name = "checkpoint.sigterm_seconds",
        .field = [](Job& j) -> Field { return &j.checkpoint.sigterm_seconds; },
        .doc =
            "SIGTERM: seconds within which the workers save at a common step and end; then they end as they "
            "are.",
        .interval = "[0.1, 86400]",
        .free_on_resume = true},

    Key{.name = "output.name",
        .field = [](Job& j) -> Field { return &j.output.name; },
        .doc = "First part of the run folder's name."},
    Key{.name = "output.folder",
        .field = [](Job& j) -> Field { return &j.output.folder; },
        .doc = "Where run folders are made.",
        .text = TextKind::path},
    Key{.name = "output.log_every",
        .field = [](Job& j) -> Field { return &j.output.log_every; },
        .doc = "Steps between lines of progress.",
        .interval = "[1, 1e12]",
        .free_on_resume = true},
    Key{.name = "output.trace",
        .field = [](Job& j) -> Field { return &j.output.trace; },
        .doc = "Write a Chrome trace of every worker.",
        .free_on_resume = true},
};

}  // namespace

std::span<const Key> schema() {
  return kSchema;
}

const Key* find_key(std::string_view name) {
  const auto found = std::ranges::find(kSchema, name, &Key::name);
  return found == kSchema.end() ? nullptr : &*found;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const Key& key : kSchema)
    names.emplace_back(key.name);
  return names;
}

}  // namespace kith::train
