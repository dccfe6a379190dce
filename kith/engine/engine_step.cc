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

graph::WorkerRound Engine::Impl::round(std::int64_t step, std::int64_t ahead) const {
  if (mixes(step)) return schedule_->round(world_.rank(), (step + 1) / options_.mix_every - 1 + ahead);
  graph::WorkerRound alone;
  alone.group = {world_.rank()};
  return alone;
}

// By bucket: what they share, and the rounds of each.
std::vector<StepContext> Engine::Impl::contexts(const StepContext& shared) const {
  std::vector<StepContext> all(buckets_.size(), shared);
  for (std::size_t b = 0; b < all.size(); ++b) {
    all[b].step = steps_;
    all[b].now = round(steps_, ahead_[b]);
    all[b].next = round(steps_ + 1, ahead_[b]);
  }
  return all;
}

StepReport Engine::Impl::step(std::span<const SegmentInput> inputs, const StepOptions& options) {
  KITH_CHECK(started_, "start() or resume() comes before the first step");
  KITH_CHECK_EQ(inputs.size(), segments_.size(), "one input per segment");
  return failure_.guard(cat("step ", steps_), [&] { return run_step(inputs, options); });
}

StepReport Engine::Impl::run_step(std::span<const SegmentInput> inputs, const StepOptions& options) {
  work_.completions.drain();
  if (reduction_) reduction_->finish(inputs);
  StepReport report;
  report.step = steps_;
  StepContext shared;
  scale_gradients(inputs, options, shared, report);
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
  ++steps_;
  if (reduction_) {
    report.waited += reduction_->waited();
    reduction_->reset();
  }
  if (nodes_are_models(options_)) require_whole_nodes(report);
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

void Engine::Impl::gradient_ready(std::size_t segment, const SegmentInput& input) {
  failure_.check();
  if (reduction_) reduction_->ready(segment, input);
}

std::shared_future<double> Engine::Impl::measure(std::span<const SegmentInput> inputs, double scale) {
  const bool has_doubles =
      std::any_of(segments_.begin(), segments_.end(), [](const Segment& s) { return s.type == DType::f64; });
  if (!norm_) norm_ = std::make_unique<GradientNorm>(work_, has_doubles);
  std::vector<kernels::Vector> gradients;
  for (const auto& bucket : buckets_)
    bucket->add_gradients(inputs, gradients);
  return norm_->measure(gradients, scale);
}

void Engine::Impl::scale_gradients(std::span<const SegmentInput> inputs, const StepOptions& options,
                                   StepContext& now, StepReport& report) {
  now.gradient_scale = options.gradient_scale;
  const bool may_skip = options.non_finite == NonFinite::skip;
  if (!options.max_norm && !may_skip) return;
  report.gradient_norm = measure(inputs, options.gradient_scale);
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
  if (reduction_) reduction_->finish(inputs);
  return measure(inputs, 1).get();
}

std::vector<bool> Engine::Impl::mean_gradients(std::span<const SegmentInput> inputs,
                                               std::span<void* const> to) {
  KITH_CHECK(reduction_ != nullptr, "gradients are averaged by all-reduce, or inside nodes");
  KITH_CHECK_EQ(to.size(), segments_.size(), "one destination per segment");
  return failure_.guard(cat("step ", steps_), [&] {
    reduction_->finish(inputs);
    std::vector<bool> there(segments_.size(), false);
    for (const auto& bucket : buckets_)
      bucket->hand_out_means(to, there);
    return there;
  });
}

}  // namespace kith::engine
