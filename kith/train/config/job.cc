#include "kith/train/config/job.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/log.h"
#include "kith/base/text.h"
#include "kith/engine/node_schedule.h"
#include "kith/graph/schedule.h"
#include "kith/optim/algorithm.h"
#include "kith/train/config/workload.h"

namespace kith::train {
namespace {

engine::EngineOptions engine_options(const Job& job) {
  NullLog log;
  return engine_options(options_of(job), std::vector<int>(static_cast<std::size_t>(job.world.workers)), log);
}

void check_world(const Job& job, const Origins& origins) {
  if (job.world.least > job.world.workers) {
    throw InputError(cat(job.world.least, " workers at least, and world.workers is ", job.world.workers),
                     place_of(origins, "world.least"), "a number of workers that the run has");
  }
  if (job.world.leave_out_slow > 0 && job.world.on_lost != "reform") {
    throw InputError("nobody can be left out where the others do not go on without it",
                     place_of(origins, "world.leave_out_slow"), "world.on_lost = \"reform\", or 0");
  }
  if (job.world.nodes.empty()) return;
  const graph::Shape shape = graph::Shape::parse(job.world.nodes, place_of(origins, "world.nodes"));
  if (shape.workers() != job.world.workers) {
    throw InputError(cat("'", job.world.nodes, "' are ", shape.workers(), " workers, world.workers is ",
                         job.world.workers),
                     place_of(origins, "world.nodes"), "make the two agree, or leave world.nodes empty");
  }
}

void check_length(const Job& job, const Origins& origins) {
  const bool counts_steps = job.train.epochs == 0 && job.train.seconds == 0;
  if (counts_steps && job.rate.curve == "cosine" && job.rate.warmup >= job.train.steps) {
    throw InputError(cat("a warm-up of ", job.rate.warmup, " steps fills the run of ", job.train.steps),
                     place_of(origins, "rate.warmup"), "make it shorter than train.steps");
  }
  if (job.rate.curve == "inverse-sqrt" && job.rate.warmup == 0) {
    throw InputError("inverse-sqrt falls from the end of the warm-up, and there is none",
                     place_of(origins, "rate.warmup"), "at least 1");
  }
}

void check_precision(const Job& job, const Origins& origins) {
  if (job.train.precision != "fp16") return;
  if (job.world.device != "cuda") {
    throw InputError("fp16 is for GPUs", place_of(origins, "train.precision"),
                     "bf16, or world.device = \"cuda\"");
  }
  if (job.train.non_finite != "skip") {
    throw InputError("the loss scale of fp16 makes gradients overflow now and then",
                     place_of(origins, "train.non_finite"), "skip");
  }
}

// Why its passes cannot be recorded; null when they can.
const char* graph_obstacle(const Job& job) {
  if (job.world.device != "cuda") return "world.device = \"cuda\"";
  if (job.train.precision == "fp16")
    return "fp32 or bf16 in train.precision: the scale of fp16's loss changes";
  if (job.model.dropout > 0) return "model.dropout = 0";
  if (job.wire.layout == "alternating")
    return "wire.layout = \"staged\": parameters must keep their addresses";
  return nullptr;
}

void check_graph(const Job& job, const Origins& origins) {
  const char* const obstacle = graph_obstacle(job);
  if (job.train.graph != "on" || !obstacle) return;
  throw InputError("passes of this job cannot be recorded", place_of(origins, "train.graph"),
                   cat("automatic, or ", obstacle));
}

void check_topology(const Job& job, const Origins& origins) {
  if ((job.topology.name == "file") == job.topology.file.empty()) {
    throw InputError(
        job.topology.file.empty() ? "topology 'file' needs a file" : "only topology 'file' reads a file",
        place_of(origins, job.topology.file.empty() ? "topology.name" : "topology.file"),
        "set topology.name = \"file\" and topology.file together");
  }
  if (!averages_models(job)) return;
  std::unique_ptr<graph::Schedule> schedule;
  try {
    const engine::EngineOptions options = engine_options(job);
    schedule = graph::make_schedule(
        engine::nodes_are_models(options) ? engine::between_nodes(options.schedule) : options.schedule);
  } catch (const InputError& error) {
    throw InputError(error.what(), place_of(origins, "topology.name"));
  }
  const bool push = optim::make_algorithm<float>(job.algorithm.name)->needs_directed_schedule();
  if (push != schedule->directed()) {
    throw InputError(cat("'", job.topology.name, "' is ", schedule->directed() ? "directed" : "undirected",
                         ", and algorithm '", job.algorithm.name, "' needs ",
                         push ? "a directed" : "an undirected", " topology"),
                     place_of(origins, "topology.name"),
                     push ? "exp-directed or random-directed" : "for example aer or exp");
  }
}

// Also where a byte is signed: what is not ASCII is no control character.
bool is_control(char c) {
  return (c >= 0 && c < ' ') || c == 0x7f;
}

void check_output(const Job& job, const Origins& origins) {
  const std::string& name = job.output.name;
  const bool plain = std::ranges::none_of(name, [](char c) { return c == '/' || is_control(c); });
  if (!name.empty() && name != "." && name != ".." && plain) return;
  std::string shown = name;
  std::ranges::replace_if(shown, is_control, '?');
  throw InputError(cat("'", shown, "' is no name for a folder"), place_of(origins, "output.name"),
                   "a name without '/' and control characters; output.folder says where");
}

void check_engine(const Job& job, const Origins& origins) {
  Job apart = job;
  apart.algorithm.inside = "none";
  const char* key = "algorithm.name";
  try {
    engine::validate(engine_options(apart));
    key = "algorithm.inside";
    engine::validate(engine_options(job));
    engine::require_mates(engine_options(job));
  } catch (const InputError& error) {
    throw InputError(error.what(), place_of(origins, key));
  }
}

}  // namespace

std::string place_of(const Origins& origins, std::string_view key) {
  const auto found = origins.find(key);
  return found == origins.end() ? cat(key, " (default)") : cat(found->second, ": ", key);
}

void check_combinations(const Job& job, const Origins& origins) {
  check_world(job, origins);
  check_workload(job, origins);
  check_length(job, origins);
  check_precision(job, origins);
  check_graph(job, origins);
  check_topology(job, origins);
  check_output(job, origins);
  check_engine(job, origins);
}

std::int64_t warmup_steps(const Job& job, std::int64_t steps) {
  if (job.rate.warmup >= 0) return job.rate.warmup;
  const std::int64_t least = job.rate.curve == "inverse-sqrt" ? 1 : 0;
  return std::max(least, steps / 10);
}

graph::Shape shape_of(const Job& job) {
  return job.world.nodes.empty() ? graph::Shape::single_node(static_cast<int>(job.world.workers))
                                 : graph::Shape::parse(job.world.nodes, "world.nodes");
}

bool records_passes(const Job& job) {
  if (job.train.graph == "off" || graph_obstacle(job)) return false;
  const bool hides_sums = optim::exchange_of(job.algorithm.name) == optim::Exchange::gradients ||
                          job.algorithm.inside == "allreduce";
  return job.train.graph == "on" || (job.model.name == "gpt" && !(hides_sums && job.world.workers > 1));
}

bool averages_models(const Job& job) {
  return optim::exchange_of(job.algorithm.name) == optim::Exchange::models;
}

Options options_of(const Job& job) {
  Options options;
  options.topology = job.topology.name;
  options.nodes = job.world.nodes;
  options.algorithm = job.algorithm.name;
  options.method.rounds = static_cast<int>(job.algorithm.rounds);
  options.method.order = optim::parse_order(job.algorithm.order);
  if (job.algorithm.outer_momentum != -1) options.method.outer_momentum = job.algorithm.outer_momentum;
  options.method.outer_rate = job.algorithm.outer_rate;
  if (job.algorithm.outer_pull != -1) options.method.outer_pull = job.algorithm.outer_pull;
  options.inside = job.algorithm.inside;
  options.optimizer = job.optimizer.name;
  options.beta1 = job.optimizer.beta1;
  options.beta2 = job.optimizer.beta2;
  options.eps = job.optimizer.eps;
  options.commit_every = static_cast<int>(job.optimizer.commit_every);
  options.momentum = job.optimizer.momentum;
  options.dampening = job.optimizer.dampening;
  options.nesterov = job.optimizer.nesterov;
  if (job.wire.type != "full") options.wire = parse_wire(job.wire.type, "wire.type");
  options.codec = job.wire.codec;
  options.consensus_step = job.wire.consensus_step;
  options.lr = job.rate.lr;
  options.weight_decay = job.optimizer.weight_decay;
  options.buffers = job.model.buffers == "averaged" ? BufferPolicy::averaged : BufferPolicy::local;
  options.non_finite = job.train.non_finite == "skip" ? NonFinite::skip : NonFinite::use;
  if (job.world.on_lost == "fail") options.on_lost = OnLost::fail;
  if (job.world.on_lost == "carry_on") options.on_lost = OnLost::carry_on;
  options.mix_every = static_cast<int>(job.algorithm.mix_every);
  options.trigger = job.algorithm.trigger;
  options.control = job.algorithm.control;
  options.stagger = job.algorithm.stagger;
  if (job.algorithm.patience_seconds > 0) {
    options.patience = from_seconds(job.algorithm.patience_seconds);
    options.patience_adapts = false;
  }
  options.bucket_bytes = static_cast<std::size_t>(parse_bytes(job.wire.bucket, "wire.bucket"));
  if (job.wire.layout == "alternating") options.layout = engine::Layout::alternating;
  if (job.wire.layout == "staged" || records_passes(job)) options.layout = engine::Layout::staged;
  options.topology_seed = static_cast<std::uint64_t>(job.topology.seed);
  options.degree = static_cast<int>(job.topology.degree);
  options.edge_probability = job.topology.edge_probability;
  options.centres = static_cast<int>(job.topology.centres);
  options.topology_file = job.topology.file;
  return options;
}

}  // namespace kith::train
