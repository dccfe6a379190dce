#include "kith/engine/engine_impl.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/engine/model_cut.h"
#include "kith/engine/node_schedule.h"
#include "kith/engine/typed_bucket.h"
#include "kith/optim/methods.h"

namespace kith::engine {
namespace {

// Buckets that are averaged at once, where a round trip between machines is long.
constexpr int kReductionsOverMachines = 3;

// Elements of the windows for numbers that a node averages.
constexpr std::size_t kInsideNumbers = 4096;

// Keeps no state where somebody else steps.
optim::OptimizerOptions local_rule(const EngineOptions& options) {
  return options.external_optimizer ? optim::OptimizerOptions{.name = "sgd"} : options.optimizer;
}

std::unique_ptr<graph::Schedule> schedule_of(const WorldParts& world, const EngineOptions& options) {
  const graph::Shape& shape = options.schedule.shape;
  if (shape.workers() != world.size()) {
    throw InputError(
        cat("shape ", shape.text(), " has ", shape.workers(), " workers, the world has ", world.size()),
        "nodes", "give a shape whose workers add up");
  }
  if (!nodes_are_models(options)) return graph::make_schedule(options.schedule);
  return make_node_schedule(options.schedule, gossip::machines_of(*world.transport, world.members));
}

// Those with whom gradients are averaged: everybody, or one's node.
WorldParts mates_of(const WorldParts& world, const EngineOptions& options, comm::Transport& transport) {
  WorldParts mates = world;
  mates.transport = &transport;
  if (!nodes_are_models(options)) return mates;
  const graph::Shape& shape = options.schedule.shape;
  const int node = shape.node_of(world.rank());
  const auto first = world.members.workers.begin() + shape.first_of(node);
  mates.members.workers.assign(first, first + shape.size_of(node));
  return mates;
}

// Views are told apart by the names of their windows.
std::string prefix_of(const Members& members) {
  return members.view == 0 ? "" : cat("view ", members.view, "/");
}

WorldParts with_transport(WorldParts world, comm::Transport& transport) {
  world.transport = &transport;
  return world;
}

}  // namespace

// The state of somebody else's optimizer is not the engine's to unify.
bool can_reform(const WorldParts& world, const EngineOptions& options) {
  return options.reforms && (world.size() > 1 || world.extensible) && world.store &&
         !(nodes_are_models(options) && options.external_optimizer);
}

template <class T>
Rules<T>::Rules(const EngineOptions& options)
    : algorithm(optim::make_algorithm<T>(options.algorithm, options.method)),
      local(optim::make_local_step<T>(local_rule(options))) {}

Engine::Impl::Impl(WorldParts world, EngineOptions options, std::vector<Segment> segments,
                   kernels::Device& device, const EngineWaits& waits)
    : transport_(*world.transport, prefix_of(world.members), waits.rounds),
      rare_(*world.transport, prefix_of(world.members), waits.operations),
      near_(*world.transport, prefix_of(world.members), waits.gradients),
      world_(with_transport(world, transport_)),
      everybody_(with_transport(std::move(world), rare_)),
      options_(std::move(options)),
      segments_(std::move(segments)),
      rules32_((validate(options_), options_)),
      rules64_(options_),
      schedule_(schedule_of(world_, options_)),
      mates_(mates_of(world_, options_, near_)),
      collectives_(everybody_, {options_.name + "/all", options_.patience}),
      inside_(mates_, {cat(options_.name, "/inside/", mates_.members.workers.front().value, "/all"),
                       options_.patience, kInsideNumbers}),
      node_state_(mates_, {cat(options_.name, "/inside/", mates_.members.workers.front().value, "/state"),
                           options_.patience}),
      work_(device),
      round_patience_({.longest = options_.patience}),
      failure_(world_.self()) {
  require_matching_schedule();
  if (averages_gradients(options_)) {
    reducers_ = world_.device_reducers(
        {cat(prefix_of(world_.members), options_.name, "/gradient/", mates_.members.workers.front().value),
         mates_.transport, world_.store, mates_.members, world_.clock, &device, deadline(),
         near_.cancellation()});
  }
  make_buckets();
  std::size_t parameters = 0;
  for (const Segment& segment : segments_)
    parameters += segment.count;
  pace_ = make_pace(everybody_, options_, *schedule_, parameters);
  if (averages_gradients(options_)) open_reduction();
}

// Threads that wait for a neighbour end first. What was put off uses everything else, and so may the device.
Engine::Impl::~Impl() {
  transport_.cancel();
  rare_.cancel();
  near_.cancel();
  try {
    wait_for_device();
  } catch (const std::exception& e) {
    world_.log->error(cat(world_.self(), ", end of ", options_.name, ": ", e.what()));
  }
}

void Engine::Impl::require_matching_schedule() const {
  const optim::Algorithm<float>& algorithm = *rules32_.algorithm;
  if (algorithm.exchange() != optim::Exchange::models ||
      schedule_->directed() == algorithm.needs_directed_schedule())
    return;
  throw InputError(cat("algorithm '", options_.algorithm, "' with topology '", schedule_->name(), "'"),
                   "topology",
                   schedule_->directed() ? "a directed topology needs algorithm 'sgp' or 'q-push'"
                                         : "it needs a directed topology, such as exp-directed");
}

void Engine::Impl::make_buckets() {
  const bool exchanges = rules32_.algorithm->exchange() == optim::Exchange::models;
  const std::vector<int> machines = gossip::machines_of(*world_.transport, world_.members);
  if (exchanges && gossip::HopSizes::of(*schedule_, machines, 1).any())
    comm_threads_ = std::make_unique<gossip::CommThreads>();
  ModelCut cut = cut_model(segments_, options_, *schedule_, machines, exchanges);
  const std::vector<BucketPlan>& plans = cut.plans;
  cut_ = cut_of(plans);
  ahead_ = std::move(cut.ahead);
  first_bucket_.assign(segments_.size(), plans.size());
  for (std::size_t b = 0; b < plans.size(); ++b) {
    buckets_.push_back(plans[b].type == DType::f64 ? make_bucket(rules64_, b, plans[b])
                                                   : make_bucket(rules32_, b, plans[b]));
    for (std::size_t segment : buckets_.back()->indices())
      first_bucket_[segment] = std::min(first_bucket_[segment], b);
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
  if (averages_gradients(options_)) bucket.mates = &mates_;
  bucket.reducers = reducers_.get();
  bucket.moved_outside = options_.external_optimizer;
  bucket.patience = options_.patience;
  bucket.codec = options_.codec;
  bucket.consensus_step = options_.consensus_step;
  bucket.schedule = schedule_.get();
  bucket.threads = comm_threads_.get();
  bucket.work = &work_;
  const auto channels = rules.algorithm->channels();
  const bool can_alternate = !channels.empty() && channels.front().is_model && bucket.wire == dtype_of<T>() &&
                             options_.codec.empty() && !options_.external_optimizer;
  bucket.layout = layout_of(plan, can_alternate, bucket.wire);
  if (bucket.layout == Layout::alternating) layout_ = Layout::alternating;
  return std::make_unique<TypedBucket<T>>(world_, bucket, *rules.algorithm, *rules.local, segments_);
}

Layout Engine::Impl::layout_of(const BucketPlan& plan, bool can_alternate, DType wire) const {
  const bool splits = plan.splits(segments_);
  if (options_.layout == Layout::alternating && !can_alternate) {
    throw InputError(cat("the alternating layout with wire ", name_of(wire)), "layout",
                     "a rounded wire needs the staged layout");
  }
  if (options_.layout == Layout::alternating && splits) {
    throw InputError("the alternating layout for a model whose parameters were split", "layout",
                     "leave it to be chosen, or take the staged layout");
  }
  return can_alternate && options_.layout != Layout::staged && !splits ? Layout::alternating : Layout::staged;
}

void Engine::Impl::open_reduction() {
  const std::vector<int> machines = gossip::machines_of(*world_.transport, mates_.members);
  const bool far =
      std::any_of(machines.begin(), machines.end(), [&](int machine) { return machine != machines.front(); });
  BackgroundReductionOptions reduction;
  reduction.segments = segments_.size();
  for (const auto& bucket : buckets_)
    reduction.buckets.push_back(bucket.get());
  reduction.patience = options_.patience;
  reduction.device = &work_.device;
  // Reducers of devices want one order of means everywhere.
  reduction.threads = far && !reducers_ ? kReductionsOverMachines : 1;
  reduction_ = std::make_unique<BackgroundReduction>(world_, std::move(reduction));
}

void Engine::Impl::start() {
  restore(0);
  if (options_.same_start && world_.size() > 1) {
    for (const auto& bucket : buckets_)
      bucket->share_start(collectives_, deadline());
  }
  publish_first();
}

void Engine::Impl::restore(std::int64_t step) {
  KITH_CHECK(!started_, "an engine starts once");
  steps_ = step;
  pace_->begin_at(step);
  for (const auto& bucket : buckets_)
    bucket->adopt(step, segments_);
}

void Engine::Impl::resume() {
  pace_->resume();
  publish_first();
  // A later view has unified them.
  if (nodes_are_models(options_) && world_.members.view == 0) require_same_state();
}

double Engine::Impl::state_digest() {
  std::uint64_t digest = 0;
  for (const StateSpan& span : state()) {
    for (const std::byte byte : span.bytes)
      digest = (digest ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3ULL;  // FNV-1a
    digest = mix_bits(digest);
  }
  return static_cast<double>(digest >> 11);
}

void Engine::Impl::require_same_state() {
  const std::vector<double> all = gather(state_digest());
  const graph::Shape& shape = options_.schedule.shape;
  for (Rank rank = 0; rank < world_.size(); ++rank) {
    const Rank first = shape.first_of(shape.node_of(rank));
    const double mine = all[static_cast<std::size_t>(rank)], other = all[static_cast<std::size_t>(first)];
    if (std::isnan(mine) || std::isnan(other)) {
      throw Error(cat(world_.members.at(std::isnan(mine) ? rank : first), " did not come"), options_.name,
                  "look at that worker's log");
    }
    if (mine == other) continue;
    throw InputError(cat(world_.members.at(first), " and ", world_.members.at(rank),
                         " are of one node and resume different models"),
                     "inside", "resume what was saved with it and with these nodes, or leave it at none");
  }
}

void Engine::Impl::publish_first() {
  pace_->begin_step();
  const std::vector<StepContext> first = contexts({});
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    buckets_[b]->publish_first(first[b]);
  started_ = true;
}

void Engine::Impl::wait_for_device() {
  work_.completions.drain();
  kernels::wait(work_.device.compute().mark());
}

void Engine::Impl::interrupt_operations() {
  rare_.cancel();
}

void Engine::Impl::interrupt_gradients() {
  if (averages_gradients(options_)) near_.cancel();
}

bool Engine::Impl::has_outer_state() const {
  return optim::method_of(options_.algorithm).takes_outer;
}

void Engine::Impl::share_state(Rank root, Take take) {
  gossip::Tree<float>& all = collectives_.of<float>();
  std::vector<float> piece;
  for (const StateSpan& span : state()) {
    for (std::size_t first = 0; first < span.bytes.size(); first += all.capacity() * sizeof(float)) {
      const auto part =
          span.bytes.subspan(first, std::min(all.capacity() * sizeof(float), span.bytes.size() - first));
      KITH_CHECK_EQ(part.size() % sizeof(float), std::size_t{0}, span.name);
      piece.resize(part.size() / sizeof(float));
      std::memcpy(piece.data(), part.data(), part.size());
      all.broadcast(piece, root, deadline());
      if (take == Take::yes) std::memcpy(part.data(), piece.data(), part.size());
    }
  }
}

void Engine::Impl::unify_node() {
  if (mates_.size() == 1) return;
  std::optional<WorkerId> missing;
  const std::vector<double> digests = inside_.of<float>().gather(state_digest(), deadline(), &missing);
  if (missing) throw Error(cat(*missing, " is missing"), cat(world_.self(), ", the state of its node"));
  if (std::ranges::adjacent_find(digests, std::ranges::not_equal_to{}) == digests.end()) return;
  gossip::Tree<float>& mates = node_state_.of<float>();
  std::vector<std::vector<float>> firsts;
  for (const StateSpan& span : state()) {
    KITH_CHECK_EQ(span.bytes.size() % sizeof(float), std::size_t{0}, span.name);
    std::vector<float>& values = firsts.emplace_back(span.bytes.size() / sizeof(float));
    std::memcpy(values.data(), span.bytes.data(), span.bytes.size());
    const std::span<float> all = values;
    for (std::size_t first = 0; first < all.size(); first += mates.capacity())
      mates.broadcast(all.subspan(first, std::min(mates.capacity(), all.size() - first)), 0, deadline());
  }
  const std::vector<StateSpan> spans = state();
  for (std::size_t k = 0; k < spans.size(); ++k)
    std::memcpy(spans[k].bytes.data(), firsts[k].data(), spans[k].bytes.size());
}

double Engine::Impl::average(std::span<void* const> to) {
  failure_.check();
  KITH_CHECK(to.empty() || to.size() == segments_.size(), "one destination per segment, or none");
  double sum = 0;
  for (const auto& bucket : buckets_)
    sum += bucket->average(collectives_, to, deadline());
  return std::sqrt(sum);
}

double Engine::Impl::consensus_distance() {
  failure_.check();
  double sum = 0;
  for (const auto& bucket : buckets_)
    sum += bucket->squared_consensus_distance(collectives_, deadline());
  return std::sqrt(sum);
}

void Engine::Impl::average_inside(std::span<double> numbers) {
  failure_.check();
  if (!nodes_are_models(options_)) return;
  gossip::Tree<double>& mates = inside_.of<double>();
  for (std::size_t first = 0; first < numbers.size(); first += mates.capacity()) {
    const std::size_t count = std::min(mates.capacity(), numbers.size() - first);
    require_everybody(mates.mean(numbers.subspan(first, count), deadline()),
                      cat(world_.self(), ", numbers of a node"));
  }
}

void Engine::Impl::mean(std::span<double> numbers) {
  failure_.check();
  gossip::Tree<double>& all = collectives_.of<double>();
  for (std::size_t first = 0; first < numbers.size(); first += all.capacity()) {
    const std::size_t count = std::min(all.capacity(), numbers.size() - first);
    require_everybody(all.mean(numbers.subspan(first, count), deadline()), cat(world_.self(), ", a mean"));
  }
}

void Engine::Impl::share(std::span<double> numbers) {
  failure_.check();
  gossip::Tree<double>& all = collectives_.of<double>();
  for (std::size_t first = 0; first < numbers.size(); first += all.capacity())
    all.broadcast(numbers.subspan(first, std::min(all.capacity(), numbers.size() - first)), 0, deadline());
}

std::vector<double> Engine::Impl::gather(double value, std::optional<WorkerId>* missing) {
  failure_.check();
  work_.completions.drain();
  return collectives_.of<float>().gather(value, deadline(), missing);
}

std::vector<StateSpan> Engine::Impl::state() {
  failure_.check();
  std::vector<StateSpan> spans;
  for (const auto& bucket : buckets_)
    bucket->state(spans);
  if (const std::span<std::byte> pace = pace_->state(); !pace.empty())
    spans.push_back({options_.name + "/pace", pace, false, true});
  return spans;
}

MemoryUse Engine::Impl::memory() const {
  MemoryUse use;
  for (const auto& bucket : buckets_)
    bucket->add_memory(use);
  return use;
}

}  // namespace kith::engine
