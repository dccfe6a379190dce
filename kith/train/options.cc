#include "kith/train/options.h"

#include "kith/base/text.h"

namespace kith::train {
namespace {

graph::Shape shape_of(const Options& options, std::span<const int> machines, Log& log) {
  if (!options.nodes.empty()) return graph::Shape::parse(options.nodes, "nodes");
  if (const auto shape = graph::Shape::of_machines(machines)) return *shape;
  log.warning(cat("the workers of a machine do not follow each other, so topology '", options.topology,
                  "' sees one node of ", machines.size(),
                  ": number them machine by machine, or give the nodes"));
  return graph::Shape::single_node(static_cast<int>(machines.size()));
}

}  // namespace

const Options& default_options() {
  static const Options options;
  return options;
}

engine::EngineOptions engine_options(const Options& options, std::span<const int> machines, Log& log) {
  engine::EngineOptions engine;
  engine.name = options.name;
  engine.algorithm = options.algorithm;
  engine.method = options.method;
  engine.inside = options.inside;
  engine.external_optimizer = options.optimizer == "external";
  if (!engine.external_optimizer) engine.optimizer.name = options.optimizer;
  engine.optimizer.beta1 = options.beta1;
  engine.optimizer.beta2 = options.beta2;
  engine.optimizer.eps = options.eps;
  engine.optimizer.commit_every = options.commit_every;
  engine.optimizer.momentum = options.momentum;
  engine.optimizer.dampening = options.dampening;
  engine.optimizer.nesterov = options.nesterov;
  engine.schedule = {.topology = options.topology,
                     .shape = shape_of(options, machines, log),
                     .seed = options.topology_seed,
                     .degree = options.degree,
                     .edge_probability = options.edge_probability,
                     .centres = options.centres,
                     .file = options.topology_file};
  engine.bucket_bytes = options.bucket_bytes;
  engine.wire = options.wire;
  engine.codec = options.codec;
  engine.consensus_step = options.consensus_step;
  engine.layout = options.layout;
  engine.mix_every = options.mix_every;
  engine.trigger = options.trigger;
  engine.control = options.control;
  engine.stagger = options.stagger;
  engine.patience = options.patience;
  engine.patience_adapts = options.patience_adapts;
  engine.same_start = options.same_start;
  engine.reforms = options.on_lost == OnLost::reform;
  return engine;
}

}  // namespace kith::train
