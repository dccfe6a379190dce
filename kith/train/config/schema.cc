#include "kith/train/config/schema.h"

#include <algorithm>
#include <array>

#include "kith/comm/device_backends.h"
#include "kith/engine/options.h"
#include "kith/graph/schedule.h"
#include "kith/optim/algorithm.h"
#include "kith/train/config/schema_parts.h"
#include "kith/train/config/workload_keys.h"

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

Names on_lost_names() {
  return {"reform", "fail", "carry_on"};
}

const std::array kWorldKeys{
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

    Key{.name = "world.on_lost",
        .field = [](Job& j) -> Field { return &j.world.on_lost; },
        .doc = "When a worker is gone: reform lets the others go on without it, fail ends the run, carry_on "
               "puts its weight on each of its neighbours for good.",
        .choices = on_lost_names,
        .free_on_resume = true},
    Key{.name = "world.least",
        .field = [](Job& j) -> Field { return &j.world.least; },
        .doc = "With fewer workers left than this the run saves and ends.",
        .interval = "[1, 4096]",
        .free_on_resume = true},
    Key{.name = "world.leave_out_slow",
        .field = [](Job& j) -> Field { return &j.world.leave_out_slow; },
        .doc =
            "A worker that so many evaluations in a row name as the one that everybody waits for leaves, and "
            "the others go on. 0: it stays.",
        .interval = "[0, 1e6]",
        .free_on_resume = true},
};

const std::array kTrainingKeys{
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
        .doc = "Samples per worker, step and accumulation; with data.name = \"pairs\" batches of "
               "data.batch_tokens.",
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
    Key{.name = "train.graph",
        .field = [](Job& j) -> Field { return &j.train.graph; },
        .doc = "Forward and backward passes as one launch, a CUDA graph. automatic: for gpt on a GPU, where "
               "gradients are not averaged, without dropout, in fp32 or bf16. Needs LibTorch 2.1.",
        .choices =
            [] {
              return Names{"automatic", "on", "off"};
            }},
    Key{.name = "train.label_smoothing",
        .field = [](Job& j) -> Field { return &j.train.label_smoothing; },
        .doc = "Share of a target that is spread over all classes, in training; losses of evaluations are "
               "without it.",
        .interval = "[0, 1)"},
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
        .doc = "How workers combine; kith methods lists them.",
        .choices = optim::algorithm_names},
    Key{.name = "algorithm.inside",
        .field = [](Job& j) -> Field { return &j.algorithm.inside; },
        .doc = "allreduce: the workers of a node average gradients and are one model, nodes average models.",
        .choices = engine::inside_names},
    Key{.name = "algorithm.mix_every",
        .field = [](Job& j) -> Field { return &j.algorithm.mix_every; },
        .doc = "Steps between rounds of mixing.",
        .interval = "[1, 1000000]"},
    Key{.name = "algorithm.trigger",
        .field = [](Job& j) -> Field { return &j.algorithm.trigger; },
        .doc =
            "When to mix, in place of mix_every: at 0, 10, 40, or from 0 every 1, from 300 every 8; or every "
            "30 s, or distance 0.5 cap 32, with world.on_lost fail."},
    Key{.name = "algorithm.control",
        .field = [](Job& j) -> Field { return &j.algorithm.control; },
        .doc =
            "Consensus control: as many rounds as bring models to distance 0.5, share 0.25 of 3.2, or update "
            "2; algorithm.rounds is the cap. With world.on_lost fail."},
    Key{.name = "algorithm.rounds",
        .field = [](Job& j) -> Field { return &j.algorithm.rounds; },
        .doc = "atc, dsgd, d-adam, mc-dsgt: rounds of mixing in a step that mixes.",
        .interval = "[1, 10000]"},
    Key{.name = "algorithm.order",
        .field = [](Job& j) -> Field { return &j.algorithm.order; },
        .doc = "dsgd, d-adam: step and then mix, or mix the models of the step before and then step.",
        .choices = optim::order_names},
    Key{.name = "algorithm.outer_momentum",
        .field = [](Job& j) -> Field { return &j.algorithm.outer_momentum; },
        .doc = "diloco, noloco: momentum of the outer steps; -1 for 0.9, or 0.5 with noloco.",
        .interval = "[-1, 1)"},
    Key{.name = "algorithm.outer_rate",
        .field = [](Job& j) -> Field { return &j.algorithm.outer_rate; },
        .doc = "diloco, noloco: rate of the outer steps.",
        .interval = "(0, 2]"},
    Key{.name = "algorithm.outer_pull",
        .field = [](Job& j) -> Field { return &j.algorithm.outer_pull; },
        .doc = "noloco: pull toward the neighbours' slow models; -1 for the outer rate.",
        .interval = "[-1, 1]"},
    Key{.name = "algorithm.stagger",
        .field = [](Job& j) -> Field { return &j.algorithm.stagger; },
        .doc =
            "Parts of the model are at different rounds of the schedule, so that every step sends the same."},
    Key{.name = "algorithm.patience_seconds",
        .field = [](Job& j) -> Field { return &j.algorithm.patience_seconds; },
        .doc =
            "How long a step waits for a neighbour that lives; a dead one is noticed at once. 0: ten times "
            "what steps take, 30 s at least.",
        .interval = "[0, 86400]",
        .free_on_resume = true},
};

const std::array kExchange{
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
        .doc = "What travels; full for the precision of the parameters. int8: a byte each, blocks of 128 "
               "share a scale; not with allreduce.",
        .choices =
            [] {
              return Names{"full", "fp32", "bf16", "fp16", "int8"};
            }},
    Key{.name = "wire.codec",
        .field = [](Job& j) -> Field { return &j.wire.codec; },
        .doc = "In place of wire.type, differences travel, encoded: int8, qsgd 4, qsgd-max 3, sign, top-k "
               "0.01 or "
               "random-k 0.1; empty for none."},
    Key{.name = "wire.consensus_step",
        .field = [](Job& j) -> Field { return &j.wire.consensus_step; },
        .doc = "With a codec: how far a worker goes toward its neighbours in a round; 0 for the codec's own.",
        .interval = "[0, 1]"},
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
        .doc = "Steps between checkpoints; 0 for none. The end of a run and a stop save in any case.",
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
        .doc = "SIGTERM: seconds within which the workers save at a common step; then they end as they are.",
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

std::vector<Key> all_keys() {
  std::vector<Key> all(kWorldKeys.begin(), kWorldKeys.end());
  for (const std::span<const Key> part : {model_keys(), data_keys(), std::span<const Key>(kTrainingKeys),
                                          optimizer_keys(), std::span<const Key>(kExchange)})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

std::span<const Key> schema() {
  static const std::vector<Key> all = all_keys();
  return all;
}

}  // namespace kith::train
