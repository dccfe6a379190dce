#include <algorithm>
#include <cmath>

#include "kith/base/check.h"
#include "kith/engine/engine_impl.h"
#include "kith/telemetry/span.h"

namespace kith::engine {
namespace {

void sort_unique(std::vector<WorkerId>& workers) {
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
}

}  // namespace

std::vector<graph::WorkerRound> Engine::Impl::rounds(std::int64_t step, std::int64_t ahead) const {
  const int count = pace_->rounds(step);
  std::vector<graph::WorkerRound> rounds;
  for (int k = 0; k < count; ++k)
    rounds.push_back(schedule_->round(world_.rank(), pace_->rounds_before(step) + k + ahead));
  if (count == 0) rounds.emplace_back().group = {world_.rank()};
  return rounds;
}

// By bucket: what they share, and the rounds of each.
std::vector<StepContext> Engine::Impl::contexts(const StepContext& shared) const {
  std::vector<StepContext> all(buckets_.size(), shared);
  for (std::size_t b = 0; b < all.size(); ++b) {
    all[b].step = steps_;
    all[b].rounds = pace_->rounds(steps_);
    all[b].rounds_before = pace_->rounds_before(steps_);
    all[b].measures_updates = pace_->measures_updates();
    all[b].now = rounds(steps_, ahead_[b]);
    all[b].next = rounds(steps_ + 1, ahead_[b]).front();
    all[b].coming = schedule_->round(world_.rank(), all[b].rounds_before + all[b].rounds + ahead_[b]);
    all[b].next_mixes = pace_->rounds(steps_ + 1) > 0;
  }
  return all;
}

StepReport Engine::Impl::step(std::span<const SegmentInput> inputs, const StepOptions& options) {
  KITH_CHECK(started_, "start() or resume() comes before the first step");
  KITH_CHECK_EQ(inputs.size(), segments_.size(), "one input per segment");
  return failure_.guard(cat("step ", steps_), [&] { return run_step(inputs, options); });
}

bool Engine::Impl::patience_adapts() const {
  return options_.patience_adapts && !averages_gradients(options_) && !schedule_->directed();
}

StepReport Engine::Impl::run_step(std::span<const SegmentInput> inputs, const StepOptions& options) {
  work_.completions.drain();
  finish_reduction(inputs);
  StepReport report;
  report.step = steps_;
  StepContext shared;
  round_patience_.begin_step(world_.clock->now());
  if (patience_adapts()) shared.deadline = world_.clock->now() + round_patience_.now();
  scale_gradients(inputs, options, shared, report);
  pace_->begin_step();
  const std::vector<StepContext> now = contexts(shared);
  int phases = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    buckets_[b]->begin_step(now[b], inputs);
    phases = std::max(phases, buckets_[b]->phases());
  }
  for (int phase = 0; phase < phases; ++phase) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      telemetry::Span span(world_.trace, *world_.clock, {"mix + step", "engine", world_.self()});
      span.arg("bucket", b);
      span.arg("phase", phase);
      buckets_[b]->run(phase);
    }
  }
  for (const auto& bucket : buckets_)
    bucket->end_step(report);
  sort_unique(report.late);
  sort_unique(report.lost);
  pace_->end_step(report);
  if (rules32_.algorithm->exchange() != optim::Exchange::models) report.rounds = 0;
  ++steps_;
  if (reduction_) {
    report.waited += reduction_->waited();
    reduction_->reset();
    own_gradients_ = false;
  }
  if (nodes_are_models(options_) && !can_reform(world_, options_)) require_whole_nodes(report);
  return report;
}

void Engine::Impl::require_whole_nodes(const StepReport& report) const {
  if (report.late.empty() && report.lost.empty()) return;
  const bool gone = !report.lost.empty();
  throw Error(cat(gone ? report.lost.front() : report.late.front(), gone ? " is gone" : " is late",
                  ", and the workers of a node are no longer one model"),
              cat(world_.self(), ", step ", report.step),
              "look at that worker's log; go on from the last checkpoint");
}

void Engine::Impl::finish_reduction(std::span<const SegmentInput> inputs) {
  if (reduction_ && !own_gradients_) reduction_->finish(inputs);
}

void Engine::Impl::use_own_gradients() {
  if (own_gradients_) return;
  own_gradients_ = true;
  interrupt_gradients();
  reduction_->abandon();
  for (const auto& bucket : buckets_)
    bucket->use_own_gradients();
}

void Engine::Impl::share_rates(std::span<SegmentInput> inputs) {
  if (mates_.size() == 1) return;
  std::vector<double> rates;
  for (const SegmentInput& input : inputs)
    rates.insert(rates.end(), {input.lr, input.decay});
  gossip::Tree<double>& mates = inside_.of<double>();
  const std::span<double> all = rates;
  for (std::size_t first = 0; first < all.size(); first += mates.capacity())
    mates.broadcast(all.subspan(first, std::min(mates.capacity(), all.size() - first)), 0, deadline());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].lr = rates[2 * i];
    inputs[i].decay = rates[2 * i + 1];
  }
}

std::optional<WorkerId> Engine::Impl::reduce(std::span<const SegmentInput> inputs) {
  failure_.check();
  reduction_->finish(inputs);
  for (const auto& bucket : buckets_) {
    if (const auto missing = bucket->missing()) return missing;
  }
  return {};
}

void Engine::Impl::gradient_ready(std::size_t segment, const SegmentInput& input) {
  failure_.check();
  if (reduction_) reduction_->ready(segment, input);
}

GradientNorm& Engine::Impl::norm() {
  const bool has_doubles =
      std::any_of(segments_.begin(), segments_.end(), [](const Segment& s) { return s.type == DType::f64; });
  if (!norm_) norm_ = std::make_unique<GradientNorm>(work_, has_doubles);
  return *norm_;
}

std::vector<kernels::Vector> Engine::Impl::gradients_of(std::span<const SegmentInput> inputs) {
  std::vector<kernels::Vector> gradients;
  for (const auto& bucket : buckets_)
    bucket->add_gradients(inputs, gradients);
  return gradients;
}

void Engine::Impl::scale_gradients(std::span<const SegmentInput> inputs, const StepOptions& options,
                                   StepContext& now, StepReport& report) {
  now.gradient_scale = options.gradient_scale;
  const bool may_skip = options.non_finite == NonFinite::skip;
  if (!options.max_norm && !may_skip) return;
  report.gradient_norm = norm().measure(gradients_of(inputs), options.gradient_scale);
  if (may_skip) now.skip = report.skipped = !std::isfinite(report.gradient_norm.get());
  if (!options.max_norm || now.skip) return;
  if (rules32_.algorithm->mixes_gradients()) {
    now.gradient_scale *= std::min(1.0, *options.max_norm / (report.gradient_norm.get() + 1e-6));
  } else {
    now.gradient_factor = norm_->clip(*options.max_norm);
  }
}

double Engine::Impl::gradient_norm(std::span<const SegmentInput> inputs) {
  failure_.check();
  finish_reduction(inputs);
  return norm().measure(gradients_of(inputs), 1).get();
}

void Engine::Impl::find_non_finite(std::span<const SegmentInput> inputs, float* found) {
  failure_.check();
  finish_reduction(inputs);
  norm().find_non_finite(gradients_of(inputs), found);
}

std::vector<bool> Engine::Impl::mean_gradients(std::span<const SegmentInput> inputs,
                                               std::span<void* const> to) {
  KITH_CHECK(reduction_ != nullptr, "gradients are averaged by all-reduce, or inside nodes");
  KITH_CHECK_EQ(to.size(), segments_.size(), "one destination per segment");
  return failure_.guard(cat("step ", steps_), [&] {
    finish_reduction(inputs);
    std::vector<bool> there(segments_.size(), false);
    for (const auto& bucket : buckets_)
      bucket->hand_out_gradients(inputs, to, there);
    return there;
  });
}

}  // namespace kith::engine
