#include "kith/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/comm/cancellable.h"
#include "kith/engine/first_failure.h"
#include "kith/engine/gradient_norm.h"
#include "kith/engine/job_threads.h"
#include "kith/engine/model_cut.h"
#include "kith/engine/typed_bucket.h"
#include "kith/kernels/cpu/cpu_kernels.h"
#include "kith/telemetry/span.h"

namespace kith::engine {
namespace {

// Rare operations with everybody go through windows of this many elements.
constexpr std::size_t kCollectiveChunk = std::size_t{1} << 19;

// Buckets that are averaged at once, where a round trip between machines is long.
constexpr int kReductionsOverMachines = 3;

// Keeps no state where somebody else steps.
optim::OptimizerOptions local_rule(const EngineOptions& options) {
  return options.external_optimizer ? optim::OptimizerOptions{.name = "sgd"} : options.optimizer;
}

template <class T>
struct Rules {
  std::unique_ptr<optim::Algorithm<T>> algorithm;
  std::unique_ptr<optim::LocalStep<T>> local;
  std::unique_ptr<kernels::Kernels<T>> host_kernels;  // for what is rare

  explicit Rules(const EngineOptions& options)
      : algorithm(optim::make_algorithm<T>(options.algorithm)),
        local(optim::make_local_step<T>(local_rule(options))),
        host_kernels(kernels::make_cpu_kernels<T>({})) {}
};

World with_transport(World world, comm::Transport& transport) {
  world.transport = &transport;
  return world;
}

void sort_unique(std::vector<WorkerId>& workers) {
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
}

}  // namespace

class Engine::Impl {
 public:
  Impl(World world, EngineOptions options, std::vector<Segment> segments, kernels::Device& device);
  ~Impl();

  void begin(std::int64_t step);
  void publish_first();
  StepReport step(std::span<const SegmentInput> inputs, const StepOptions& step_options);
  void gradient_ready(std::size_t segment, const SegmentInput& input);
  double gradient_norm(std::span<const SegmentInput> inputs);
  std::vector<bool> mean_gradients(std::span<const SegmentInput> inputs, std::span<void* const> to);
  Bucket& bucket_of(std::size_t segment) const { return *buckets_[buckets_of_[segment].front()]; }
  Deadline deadline() const { return world_.clock->now() + options_.patience; }
  Collectives& collectives();

  comm::CancellableTransport transport_;
  const World world_;  // with that transport
  const EngineOptions options_;
  const std::vector<Segment> segments_;
  const Rules<float> rules32_;
  const Rules<double> rules64_;
  const std::unique_ptr<graph::Schedule> schedule_;
  std::unique_ptr<gossip::DeviceReducers> reducers_;  // null: all-reduce goes through host memory
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<std::vector<std::size_t>> buckets_of_;  // segment -> its buckets, the one where it begins first
  std::vector<std::int64_t> ahead_;                   // by bucket: rounds of the schedule
  Cut cut_;
  Collectives collectives_;
  DeviceWork work_;
  Layout layout_ = Layout::staged;
  std::int64_t steps_ = 0;
  bool started_ = false;
  FirstFailure failure_{world_.self()};

 private:
  StepReport run_step(std::span<const SegmentInput> inputs, const StepOptions& step_options);
  template <class T>
  std::unique_ptr<Bucket> make_bucket(const Rules<T>& rules, std::size_t index, const BucketPlan& plan);
  bool mixes(std::int64_t step) const { return (step + 1) % options_.mix_every == 0; }
  graph::WorkerRound round(std::int64_t step, std::int64_t ahead) const;
  std::vector<StepContext> contexts(const StepContext& shared) const;
  bool has_doubles() const;
  std::shared_future<double> measure(std::span<const SegmentInput> inputs, double scale);
  void scale_gradients(std::span<const SegmentInput> inputs, const StepOptions& options, StepContext& now,
                       StepReport& report);
  void reduce_rest(std::span<const SegmentInput> inputs);
  void submit_complete();
  void forget_reduction();

  // All-reduce: inputs of the step under way, which buckets are complete, how many are on their way.
  std::vector<SegmentInput> ready_;
  std::vector<bool> is_ready_;
  std::vector<std::size_t> missing_;  // per bucket
  std::size_t submitted_ = 0;
  bool reduced_ = false;                // this step's gradients are averaged
  std::unique_ptr<GradientNorm> norm_;  // once somebody has asked
  // Last: they end before what their jobs use.
  std::unique_ptr<JobThreads> reduction_threads_;
  Clock::Duration stood_still_{};              // for reductions, in the step in progress
  std::unique_ptr<CommThreads> comm_threads_;  // null when no group spans machines
};

Engine::Impl::Impl(World world, EngineOptions options, std::vector<Segment> segments, kernels::Device& device)
    : transport_(*world.transport),
      world_(with_transport(std::move(world), transport_)),
      options_(std::move(options)),
      segments_(std::move(segments)),
      rules32_((validate(options_), options_)),
      rules64_(options_),
      schedule_(graph::make_schedule(options_.schedule)),
      work_(device) {
  if (schedule_->workers() != world_.size()) {
    throw InputError(cat("shape ", schedule_->shape().text(), " has ", schedule_->workers(),
                         " workers, the world has ", world_.size()),
                     "nodes", "give a shape whose workers add up");
  }
  if (schedule_->directed() != rules32_.algorithm->needs_directed_schedule() &&
      !rules32_.algorithm->channels().empty()) {
    throw InputError(cat("algorithm '", options_.algorithm, "' with topology '", schedule_->name(), "'"),
                     "topology",
                     schedule_->directed() ? "a directed topology needs algorithm 'sgp'"
                                           : "'sgp' needs a directed topology, such as exp-directed");
  }
  const bool exchanges = !rules32_.algorithm->channels().empty();
  if (exchanges &&
      gossip::HopSizes::of(*schedule_, gossip::machines_of(*world_.transport, world_.members), 1).any()) {
    comm_threads_ = std::make_unique<CommThreads>();
  }
  if (averages_gradients(options_)) {
    reducers_ = world_.device_reducers({cat(options_.name, "/gradient"), world_.transport, world_.store,
                                        world_.members, world_.clock, &device, deadline(),
                                        transport_.cancellation()});
  }
  ModelCut cut = cut_model(segments_, options_, *schedule_, exchanges);
  const std::vector<BucketPlan>& plans = cut.plans;
  cut_ = cut_of(plans);
  ahead_ = std::move(cut.ahead);
  buckets_of_.resize(segments_.size());
  for (std::size_t b = 0; b < plans.size(); ++b) {
    buckets_.push_back(plans[b].type == DType::f64 ? make_bucket(rules64_, b, plans[b])
                                                   : make_bucket(rules32_, b, plans[b]));
    for (std::size_t segment : buckets_.back()->indices())
      buckets_of_[segment].push_back(b);
    missing_.push_back(plans[b].segments.size());
  }
  ready_.resize(segments_.size());
  is_ready_.assign(segments_.size(), false);
  if (averages_gradients(options_)) {
    const std::vector<int>& machines = world_.transport->machines();
    const bool far = std::any_of(machines.begin(), machines.end(), [](int machine) { return machine > 0; });
    // Reducers of devices want one order of means everywhere.
    reduction_threads_ = std::make_unique<JobThreads>(far && !reducers_ ? kReductionsOverMachines : 1);
  }
}

// Threads that wait for a neighbour end first. What was put off uses everything else, and so may the device.
Engine::Impl::~Impl() {
  transport_.cancel();
  try {
    work_.completions.drain();
    kernels::wait(work_.device.compute().mark());
  } catch (const std::exception& e) {
    world_.log->error(cat(world_.self(), ", end of ", options_.name, ": ", e.what()));
  }
}

template <class T>
std::unique_ptr<Bucket> Engine::Impl::make_bucket(const Rules<T>& rules, std::size_t index,
                                                  const BucketPlan& plan) {
  TypedBucketOptions bucket;
  bucket.name = cat(options_.name, "/bucket", index);
  bucket.plan = plan;
  bucket.digest = hash_words(digest(plan, segments_), ahead_[index]);
  bucket.wire = options_.wire.value_or(dtype_of<T>());
  // A wire is never wider than the arithmetic.
  if (size_of(bucket.wire) >= sizeof(T)) bucket.wire = dtype_of<T>();
  bucket.averages_gradients = averages_gradients(options_);
  bucket.moved_outside = options_.external_optimizer;
  bucket.reducers = reducers_.get();
  bucket.patience = options_.patience;
  bucket.schedule = schedule_.get();
  bucket.threads = comm_threads_.get();
  bucket.work = &work_;
  const auto channels = rules.algorithm->channels();
  const bool can_alternate = !channels.empty() && channels.front().is_model && bucket.wire == dtype_of<T>() &&
                             !options_.external_optimizer;
  if (options_.layout == Layout::alternating && !can_alternate) {
    throw InputError(cat("the alternating layout with wire ", name_of(bucket.wire)), "layout",
                     "a rounded wire needs the staged layout");
  }
  if (options_.layout == Layout::alternating && plan.splits(segments_)) {
    throw InputError("the alternating layout for a model whose parameters were split", "layout",
                     "leave it to be chosen, or take the staged layout");
  }
  if (can_alternate && options_.layout != Layout::staged && !plan.splits(segments_))
    bucket.layout = layout_ = Layout::alternating;
  return std::make_unique<TypedBucket<T>>(world_, bucket, *rules.algorithm, *rules.local, segments_);
}

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

Collectives& Engine::Impl::collectives() {
  const auto open = [&]<class T>(std::unique_ptr<gossip::Collective<T>>& collective, const Rules<T>& rules) {
    if (collective) return;
    collective = std::make_unique<gossip::Collective<T>>(
        *world_.transport, world_.members, *rules.host_kernels, *world_.clock,
        gossip::CollectiveOptions{cat(options_.name, "/all", 8 * sizeof(T)), kCollectiveChunk,
                                  options_.patience});
  };
  open(collectives_.f32, rules32_);
  if (has_doubles()) open(collectives_.f64, rules64_);
  return collectives_;
}

bool Engine::Impl::has_doubles() const {
  return std::any_of(segments_.begin(), segments_.end(),
                     [](const Segment& s) { return s.type == DType::f64; });
}

void Engine::Impl::begin(std::int64_t step) {
  KITH_CHECK(!started_, "an engine starts once");
  steps_ = step;
  for (const auto& bucket : buckets_)
    bucket->adopt(step, segments_);
}

void Engine::Impl::publish_first() {
  const std::vector<StepContext> first = contexts({});
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    buckets_[b]->publish_first(first[b]);
  started_ = true;
}

StepReport Engine::Impl::step(std::span<const SegmentInput> inputs, const StepOptions& step_options) {
  KITH_CHECK(started_, "start() or resume() comes before the first step");
  KITH_CHECK_EQ(inputs.size(), segments_.size(), "one input per segment");
  return failure_.guard(cat("step ", steps_), [&] { return run_step(inputs, step_options); });
}

StepReport Engine::Impl::run_step(std::span<const SegmentInput> inputs, const StepOptions& step_options) {
  work_.completions.drain();
  if (reduction_threads_) reduce_rest(inputs);
  StepReport report;
  report.step = steps_;
  StepContext shared;
  scale_gradients(inputs, step_options, shared, report);
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
  // The reductions' own waits are of threads beside the step's, several at a time.
  if (reduction_threads_) report.waited = std::exchange(stood_still_, {});
  sort_unique(report.late);
  sort_unique(report.lost);
  ++steps_;
  forget_reduction();
  return report;
}

void Engine::Impl::forget_reduction() {
  is_ready_.assign(segments_.size(), false);
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    missing_[b] = buckets_[b]->indices().size();
  submitted_ = 0;
  reduced_ = false;
}

void Engine::Impl::gradient_ready(std::size_t segment, const SegmentInput& input) {
  failure_.check();
  if (!reduction_threads_ || is_ready_[segment]) return;
  ready_[segment] = input;
  is_ready_[segment] = true;
  for (std::size_t bucket : buckets_of_[segment])
    --missing_[bucket];
  submit_complete();
}

void Engine::Impl::submit_complete() {
  for (; submitted_ < buckets_.size() && missing_[submitted_] == 0; ++submitted_) {
    Bucket* const bucket = buckets_[submitted_].get();
    reduction_threads_->submit([this, bucket, b = submitted_, ready = work_.device.compute().mark()] {
      telemetry::Span span(world_.trace, *world_.clock,
                           {"all-reduce", "engine", world_.self(), cat("communication ", b)});
      span.arg("bucket", b);
      bucket->reduce_gradients(ready_, ready, deadline());
    });
  }
}

void Engine::Impl::reduce_rest(std::span<const SegmentInput> inputs) {
  if (reduced_) return;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    gradient_ready(i, inputs[i]);
  const Clock::Time begin = world_.clock->now();
  reduction_threads_->drain();
  stood_still_ += world_.clock->now() - begin;
  reduced_ = true;
}

std::shared_future<double> Engine::Impl::measure(std::span<const SegmentInput> inputs, double scale) {
  if (!norm_) norm_ = std::make_unique<GradientNorm>(work_, has_doubles());
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
  if (reduction_threads_) reduce_rest(inputs);
  return measure(inputs, 1).get();
}

std::vector<bool> Engine::Impl::mean_gradients(std::span<const SegmentInput> inputs,
                                               std::span<void* const> to) {
  KITH_CHECK(reduction_threads_ != nullptr, "only all-reduce averages gradients");
  KITH_CHECK_EQ(to.size(), segments_.size(), "one destination per segment");
  return failure_.guard(cat("step ", steps_), [&] {
    reduce_rest(inputs);
    std::vector<bool> there(segments_.size(), false);
    for (const auto& bucket : buckets_)
      bucket->hand_out_means(to, there);
    return there;
  });
}

Engine::Engine(World world, EngineOptions options, std::vector<Segment> segments, kernels::Device& device)
    : impl_(std::make_unique<Impl>(std::move(world), std::move(options), std::move(segments), device)) {}
Engine::~Engine() = default;

const EngineOptions& Engine::options() const {
  return impl_->options_;
}
const World& Engine::world() const {
  return impl_->world_;
}
std::int64_t Engine::steps() const {
  return impl_->steps_;
}
Layout Engine::layout() const {
  return impl_->layout_;
}
std::size_t Engine::buckets() const {
  return impl_->buckets_.size();
}
Cut Engine::cut() const {
  return impl_->cut_;
}
std::vector<std::size_t> Engine::bucket(std::size_t b) const {
  return impl_->buckets_[b]->indices();
}
void* Engine::data(std::size_t segment) const {
  return impl_->bucket_of(segment).data(segment);
}
std::vector<void*> Engine::places(std::size_t segment) const {
  return impl_->bucket_of(segment).places(segment);
}

void Engine::start() {
  impl_->begin(0);
  if (impl_->options_.same_start && impl_->world_.size() > 1) {
    for (const auto& bucket : impl_->buckets_)
      bucket->share_start(impl_->collectives(), impl_->deadline());
  }
  impl_->publish_first();
}

void Engine::restore(std::int64_t step) {
  impl_->begin(step);
}
void Engine::resume() {
  impl_->publish_first();
}

StepReport Engine::step(std::span<const SegmentInput> inputs, const StepOptions& options) {
  return impl_->step(inputs, options);
}

void Engine::gradient_ready(std::size_t segment, const SegmentInput& input) {
  impl_->gradient_ready(segment, input);
}
double Engine::gradient_norm(std::span<const SegmentInput> inputs) {
  return impl_->gradient_norm(inputs);
}
std::vector<bool> Engine::mean_gradients(std::span<const SegmentInput> inputs, std::span<void* const> to) {
  return impl_->mean_gradients(inputs, to);
}

void Engine::average(std::span<void* const> to) {
  impl_->failure_.check();
  KITH_CHECK_EQ(to.size(), impl_->segments_.size(), "one destination per segment");
  for (const auto& bucket : impl_->buckets_)
    bucket->average(impl_->collectives(), to, impl_->deadline());
}

double Engine::consensus_distance() {
  impl_->failure_.check();
  double sum = 0;
  for (const auto& bucket : impl_->buckets_) {
    sum += bucket->squared_consensus_distance(impl_->collectives(), impl_->deadline());
  }
  return std::sqrt(sum);
}

std::vector<double> Engine::gather(double value) {
  impl_->failure_.check();
  impl_->work_.completions.drain();
  return impl_->collectives().f32->gather(value, impl_->deadline());
}

std::vector<StateSpan> Engine::state() {
  impl_->failure_.check();
  std::vector<StateSpan> spans;
  for (const auto& bucket : impl_->buckets_)
    bucket->state(spans);
  return spans;
}

MemoryUse Engine::memory() const {
  MemoryUse use;
  for (const auto& bucket : impl_->buckets_)
    bucket->add_memory(use);
  return use;
}

}  // namespace kith::engine
