#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <vector>

#include "kith/comm/cancellable.h"
#include "kith/engine/background_reduction.h"
#include "kith/engine/bucketing.h"
#include "kith/engine/collectives.h"
#include "kith/engine/comm_threads.h"
#include "kith/engine/completions.h"
#include "kith/engine/engine.h"
#include "kith/engine/first_failure.h"
#include "kith/engine/gradient_norm.h"
#include "kith/optim/algorithm.h"

namespace kith::engine {

// The rules in one type of arithmetic.
template <class T>
struct Rules {
  std::unique_ptr<optim::Algorithm<T>> algorithm;
  std::unique_ptr<optim::LocalStep<T>> local;

  explicit Rules(const EngineOptions& options);
};

// What engine.h says of the functions of the same name: engine_impl.cc builds and has what is rare,
// engine_step.cc has the steps.
class Engine::Impl {
 public:
  Impl(World world, EngineOptions options, std::vector<Segment> segments, kernels::Device& device);
  ~Impl();

  const EngineOptions& options() const { return options_; }
  const World& world() const { return world_; }
  std::int64_t steps() const { return steps_; }
  Layout layout() const { return layout_; }
  const Cut& cut() const { return cut_; }
  std::size_t buckets() const { return buckets_.size(); }
  const Bucket& bucket(std::size_t b) const { return *buckets_[b]; }
  // The one in which the segment begins.
  const Bucket& bucket_of(std::size_t segment) const { return *buckets_[first_bucket_[segment]]; }

  void start();
  void restore(std::int64_t step);
  void resume();
  StepReport step(std::span<const SegmentInput> inputs, const StepOptions& options);
  void gradient_ready(std::size_t segment, const SegmentInput& input);
  double gradient_norm(std::span<const SegmentInput> inputs);
  std::vector<bool> mean_gradients(std::span<const SegmentInput> inputs, std::span<void* const> to);
  double average(std::span<void* const> to);
  double consensus_distance();
  void average_inside(std::span<double> numbers);
  std::vector<double> gather(double value);
  std::vector<StateSpan> state();
  MemoryUse memory() const;

 private:
  void require_matching_schedule() const;
  void make_buckets();
  template <class T>
  std::unique_ptr<Bucket> make_bucket(const Rules<T>& rules, std::size_t index, const BucketPlan& plan);
  Layout layout_of(const BucketPlan& plan, bool can_alternate, DType wire) const;
  void open_reduction();
  void publish_first();
  // Nodes that are one model each: their workers hold the same state.
  void require_same_state();
  void require_whole_nodes(const StepReport& report) const;
  Deadline deadline() const { return world_.clock->now() + options_.patience; }

  StepReport run_step(std::span<const SegmentInput> inputs, const StepOptions& options);
  bool mixes(std::int64_t step) const { return (step + 1) % options_.mix_every == 0; }
  graph::WorkerRound round(std::int64_t step, std::int64_t ahead) const;
  std::vector<StepContext> contexts(const StepContext& shared) const;
  std::shared_future<double> measure(std::span<const SegmentInput> inputs, double scale);
  void scale_gradients(std::span<const SegmentInput> inputs, const StepOptions& options, StepContext& now,
                       StepReport& report);

  comm::CancellableTransport transport_;
  const World world_;  // with that transport
  const EngineOptions options_;
  const std::vector<Segment> segments_;
  const Rules<float> rules32_;
  const Rules<double> rules64_;
  const std::unique_ptr<graph::Schedule> schedule_;
  const World mates_;                                 // with whom gradients are averaged, if at all
  std::unique_ptr<gossip::DeviceReducers> reducers_;  // null: gradients go through host memory
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<std::size_t> first_bucket_;  // by segment: where it begins
  std::vector<std::int64_t> ahead_;        // by bucket: rounds of the schedule
  Cut cut_;
  Collectives collectives_;
  Collectives inside_;  // with one's mates
  DeviceWork work_;
  Layout layout_ = Layout::staged;
  std::int64_t steps_ = 0;
  bool started_ = false;
  FirstFailure failure_;
  std::unique_ptr<GradientNorm> norm_;  // once somebody has asked
  // Last: they end before what their jobs use.
  std::unique_ptr<BackgroundReduction> reduction_;  // null where gradients are not averaged
  std::unique_ptr<CommThreads> comm_threads_;       // null when no group spans machines
};

}  // namespace kith::engine
