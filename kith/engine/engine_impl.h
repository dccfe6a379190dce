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
#include "kith/engine/engine.h"
#include "kith/engine/first_failure.h"
#include "kith/engine/gradient_norm.h"
#include "kith/engine/pace.h"
#include "kith/engine/round_patience.h"
#include "kith/gossip/comm_threads.h"
#include "kith/gossip/completions.h"
#include "kith/optim/algorithm.h"

namespace kith::engine {

// The rules in one type of arithmetic.
template <class T>
struct Rules {
  std::unique_ptr<optim::Algorithm<T>> algorithm;
  std::unique_ptr<optim::LocalStep<T>> local;

  explicit Rules(const EngineOptions& options);
};

// Ends what an engine waits for, also while it is being made.
struct EngineWaits {
  std::shared_ptr<comm::Cancellation> rounds = std::make_shared<comm::Cancellation>();
  std::shared_ptr<comm::Cancellation> operations = std::make_shared<comm::Cancellation>();
  std::shared_ptr<comm::Cancellation> gradients = std::make_shared<comm::Cancellation>();

  void cancel() const {
    rounds->cancel();
    operations->cancel();
    gradients->cancel();
  }
};

// Whether the others go on without a member that is gone.
bool can_reform(const WorldParts& world, const EngineOptions& options);

// What engine.h says of the functions of the same name: engine_impl.cc builds and has what is rare,
// engine_step.cc has the steps.
class Engine::Impl {
 public:
  Impl(WorldParts world, EngineOptions options, std::vector<Segment> segments, kernels::Device& device,
       const EngineWaits& waits = {});
  ~Impl();

  const EngineOptions& options() const { return options_; }
  const WorldParts& world() const { return world_; }
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
  void find_non_finite(std::span<const SegmentInput> inputs, float* found);
  std::vector<bool> mean_gradients(std::span<const SegmentInput> inputs, std::span<void* const> to);
  double average(std::span<void* const> to);
  double consensus_distance();
  void average_inside(std::span<double> numbers);
  std::vector<double> gather(double value, std::optional<WorkerId>* missing = nullptr);
  void mean(std::span<double> numbers);
  void share(std::span<double> numbers);
  std::vector<StateSpan> state();
  MemoryUse memory() const;

  // For ViewFollower.
  // End waits that have no end when members stop where they are: in operations with everybody, and in the
  // averaging of gradients. For good. From any thread.
  void interrupt_operations();
  void interrupt_gradients();
  // Averages the gradients, before the step. Who was missing, if anybody was.
  std::optional<WorkerId> reduce(std::span<const SegmentInput> inputs);
  // Where nodes are models. In the step under way each uses its own gradients, for those of the node cannot
  // be averaged any more: ends their averaging for good.
  void use_own_gradients();
  // The rates and decays become those of the node's first worker. Error when somebody is missing.
  void share_rates(std::span<SegmentInput> inputs);
  // Between restore() and resume(): a node in which workers differ takes the state of its first. As a whole,
  // or not at all: Error when somebody is missing.
  void unify_node();
  // Everybody's state becomes that of `root`, or only that of those who take it; between restore() and
  // resume(). Collective.
  enum class Take : std::uint8_t { no, yes };
  void share_state(Rank root, Take take = Take::yes);
  // Whether workers hold something beside their models that is meant to be the same on all of them.
  bool has_outer_state() const;
  void wait_for_device();
  bool failed() const { return failure_.failed(); }
  // Whether the algorithm's own state means nothing among other members.
  bool tracks() const { return rules32_.algorithm->at_view_change() == optim::AtViewChange::reset; }
  // Whether workers have push-sum weights, which add up to the mass of all.
  bool carries_mass() const { return rules32_.algorithm->needs_directed_schedule(); }

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
  // Of the state, in all bits that a double holds.
  double state_digest();
  void require_whole_nodes(const StepReport& report) const;
  Deadline deadline() const { return world_.clock->now() + options_.patience; }

  // Whether the deadline of a step's rounds sets itself.
  bool patience_adapts() const;

  // Waits for the averages of this step's gradients, where there are to be any.
  void finish_reduction(std::span<const SegmentInput> inputs);
  StepReport run_step(std::span<const SegmentInput> inputs, const StepOptions& options);
  std::vector<graph::WorkerRound> rounds(std::int64_t step, std::int64_t ahead) const;
  std::vector<StepContext> contexts(const StepContext& shared) const;
  GradientNorm& norm();
  std::vector<kernels::Vector> gradients_of(std::span<const SegmentInput> inputs);
  void scale_gradients(std::span<const SegmentInput> inputs, const StepOptions& options, StepContext& now,
                       StepReport& report);

  comm::CancellableTransport transport_;
  comm::CancellableTransport rare_;  // for operations with everybody
  comm::CancellableTransport near_;  // for gradients
  const WorldParts world_;           // with `transport_`
  const WorldParts everybody_;       // with `rare_`
  const EngineOptions options_;
  const std::vector<Segment> segments_;
  const Rules<float> rules32_;
  const Rules<double> rules64_;
  const std::unique_ptr<graph::Schedule> schedule_;
  const WorldParts mates_;  // with whom gradients are averaged, if at all; with `near_`
  std::unique_ptr<gossip::DeviceReducers> reducers_;  // null: gradients go through host memory
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<std::size_t> first_bucket_;  // by segment: where it begins
  std::vector<std::int64_t> ahead_;        // by bucket: rounds of the schedule
  Cut cut_;
  Collectives collectives_;
  Collectives inside_;      // with one's mates
  Collectives node_state_;  // likewise, for what is long
  gossip::DeviceWork work_;
  Layout layout_ = Layout::staged;
  RoundPatience round_patience_;
  std::int64_t steps_ = 0;
  bool started_ = false;
  bool own_gradients_ = false;  // in the step under way
  FirstFailure failure_;
  std::unique_ptr<GradientNorm> norm_;  // once somebody has asked
  // Last: they end before what their jobs use.
  std::unique_ptr<BackgroundReduction> reduction_;     // null where gradients are not averaged
  std::unique_ptr<gossip::CommThreads> comm_threads_;  // null when no group spans machines
  std::unique_ptr<Pace> pace_;
};

}  // namespace kith::engine
