// `kith train` and a program of one's own start from the same numbers.
#include <gtest/gtest.h>

#include "kith/train/config/job.h"

namespace kith::train {
namespace {

// Every member is named: one that is added to Options and forgotten here does not compile.
TEST(Defaults, OfAJobAreThoseOfAProgram) {
  const auto& [topology, nodes, algorithm, method, inside, optimizer, beta1, beta2, eps, commit_every,
               momentum, dampening, nesterov, wire, codec, consensus_step, lr, weight_decay, groups, buffers,
               non_finite, on_lost, resume_from, name, mix_every, trigger, control, stagger, patience,
               patience_adapts, bucket_bytes, layout, same_start, topology_seed, degree, edge_probability,
               centres, topology_file] = Options{};
  const Options job = options_of(Job{});
  EXPECT_EQ(job.topology, topology);
  EXPECT_EQ(job.nodes, nodes);
  EXPECT_EQ(job.algorithm, algorithm);
  EXPECT_EQ(job.method, method);
  EXPECT_EQ(job.inside, inside);
  EXPECT_EQ(job.optimizer, optimizer);
  EXPECT_EQ(job.beta1, beta1);
  EXPECT_EQ(job.beta2, beta2);
  EXPECT_EQ(job.eps, eps);
  EXPECT_EQ(job.commit_every, commit_every);
  EXPECT_EQ(job.momentum, momentum);
  EXPECT_EQ(job.dampening, dampening);
  EXPECT_EQ(job.nesterov, nesterov);
  EXPECT_EQ(job.wire, wire);
  EXPECT_EQ(job.codec, codec);
  EXPECT_EQ(job.consensus_step, consensus_step);
  EXPECT_EQ(job.lr, lr);
  EXPECT_EQ(job.weight_decay, weight_decay);
  EXPECT_EQ(job.groups.size(), groups.size());
  EXPECT_EQ(job.buffers, buffers);
  EXPECT_EQ(job.non_finite, non_finite);
  EXPECT_EQ(job.on_lost, on_lost);
  EXPECT_EQ(job.resume_from, resume_from);
  EXPECT_EQ(job.name, name);
  EXPECT_EQ(job.mix_every, mix_every);
  EXPECT_EQ(job.trigger, trigger);
  EXPECT_EQ(job.control, control);
  EXPECT_EQ(job.stagger, stagger);
  EXPECT_EQ(job.patience, patience);
  EXPECT_EQ(job.patience_adapts, patience_adapts);
  EXPECT_EQ(job.bucket_bytes, bucket_bytes);
  EXPECT_EQ(job.layout, layout);
  EXPECT_EQ(job.same_start, same_start);
  EXPECT_EQ(job.topology_seed, topology_seed);
  EXPECT_EQ(job.degree, degree);
  EXPECT_EQ(job.edge_probability, edge_probability);
  EXPECT_EQ(job.centres, centres);
  EXPECT_EQ(job.topology_file, topology_file);
}

// ... and both read them from the engine's and the optimizer's own options.
TEST(Defaults, AreTheEnginesOwn) {
  NullLog log;
  const engine::EngineOptions own;
  const engine::EngineOptions made = engine_options(Options{}, std::vector<int>(1), log);
  EXPECT_EQ(made.algorithm, own.algorithm);
  EXPECT_EQ(made.method, own.method);
  EXPECT_EQ(made.inside, own.inside);
  EXPECT_EQ(made.optimizer.name, own.optimizer.name);
  EXPECT_EQ(made.optimizer.beta1, own.optimizer.beta1);
  EXPECT_EQ(made.optimizer.beta2, own.optimizer.beta2);
  EXPECT_EQ(made.optimizer.eps, own.optimizer.eps);
  EXPECT_EQ(made.optimizer.commit_every, own.optimizer.commit_every);
  EXPECT_EQ(made.optimizer.momentum, own.optimizer.momentum);
  EXPECT_EQ(made.optimizer.dampening, own.optimizer.dampening);
  EXPECT_EQ(made.optimizer.nesterov, own.optimizer.nesterov);
  EXPECT_EQ(made.schedule.topology, own.schedule.topology);
  EXPECT_EQ(made.schedule.shape, own.schedule.shape);
  EXPECT_EQ(made.schedule.seed, own.schedule.seed);
  EXPECT_EQ(made.schedule.degree, own.schedule.degree);
  EXPECT_EQ(made.schedule.edge_probability, own.schedule.edge_probability);
  EXPECT_EQ(made.schedule.centres, own.schedule.centres);
  EXPECT_EQ(made.bucket_bytes, own.bucket_bytes);
  EXPECT_EQ(made.wire, own.wire);
  EXPECT_EQ(made.codec, own.codec);
  EXPECT_EQ(made.consensus_step, own.consensus_step);
  EXPECT_EQ(made.layout, own.layout);
  EXPECT_EQ(made.mix_every, own.mix_every);
  EXPECT_EQ(made.trigger, own.trigger);
  EXPECT_EQ(made.control, own.control);
  EXPECT_EQ(made.stagger, own.stagger);
  EXPECT_EQ(made.patience, own.patience);
  EXPECT_EQ(made.patience_adapts, own.patience_adapts);
  EXPECT_EQ(made.same_start, own.same_start);
  EXPECT_FALSE(made.external_optimizer);
  EXPECT_EQ(own.schedule.topology, "aer");
  EXPECT_EQ(own.algorithm, "awc");
  EXPECT_EQ(own.optimizer.name, "adamw");
  EXPECT_EQ(own.optimizer.beta1, 0.9);
  EXPECT_EQ(own.optimizer.beta2, 0.95);
  EXPECT_FALSE(own.wire.has_value());
}

}  // namespace
}  // namespace kith::train
