#include "kith/engine/view_follower.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/gossip/machine_reducer.h"

namespace kith::engine {
namespace {

// Views in a row that this worker could not open though nobody was gone. Then it is not a matter of others.
constexpr int kFallsOfItsOwn = 3;

std::string names_of(const std::vector<WorkerId>& workers) {
  std::string names;
  for (const WorkerId worker : workers)
    names += cat(names.empty() ? "" : ", ", worker.value);
  return names;
}

}  // namespace

ViewFollower::ViewFollower(WorldParts world, EngineOptions options, std::vector<Segment> segments,
                           kernels::Device& device)
    : world_(std::move(world)),
      options_(std::move(options)),
      segments_(std::move(segments)),
      device_(device),
      standing_(world_.members) {
  if (world_.newcomer) {
    join_running();
    return;
  }
  if (world_.members.view == 0) require_mates(options_);
  engine_ = std::make_unique<Engine::Impl>(world_, options_, segments_, device);
  interrupted_ = engine_.get();
  if (!can_reform(world_, options_)) return;
  roster_ = Roster(world_.members, options_.schedule.shape);
  take_newcomers_in(0);
  views_ = std::make_unique<launch::Views>(*world_.store, *world_.transport, world_.members, *world_.clock,
                                           *world_.log, views_options());
}

ViewFollower::~ViewFollower() {
  close_to_newcomers();
}

launch::ViewsOptions ViewFollower::views_options() {
  launch::ViewsOptions views;
  views.name = options_.name;
  views.patience = options_.patience;
  views.lost = [this](WorkerId worker) { return gone(worker); };
  views.candidate = [this](const Members& members) {
    launch::Admissions* const admissions = this->admissions();
    return admissions ? admissions->candidate(members) : std::nullopt;
  };
  views.on_called = [this](const std::stop_token& stop) { on_called(stop); };
  views.on_urgent = [this] { on_urgent(); };
  return views;
}

bool ViewFollower::reduces() const {
  return averages_gradients(options_) && !nodes_are_models(options_);
}

void ViewFollower::interrupt_on_call(Engine::Impl& engine) {
  const std::lock_guard lock(mutex_);
  interrupted_ = &engine;
}

// ---- agreeing

bool ViewFollower::enter(Phase phase) {
  const std::lock_guard lock(mutex_);
  const bool waits = phase == Phase::apart ? !called_gently() : phase != Phase::between;
  if (waits && named_ && !next_) return false;
  phase_ = phase;
  place_.steps = engine_->steps();
  changed_.notify_all();
  return true;
}

void ViewFollower::on_called(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  interrupted_->interrupt_gradients();
  if (!called_gently()) interrupted_->interrupt_operations();
  const auto can_tell = [&] { return phase_ != Phase::open && (phase_ != Phase::apart || called_gently()); };
  if (!changed_.wait(lock, stop, can_tell)) return;
  launch::Place place{place_, last_values_, leaving_, operating_};
  if (phase_ == Phase::moving) ++place.progress.steps;
  named_ = true;
  lock.unlock();
  std::optional<launch::View> view;
  std::exception_ptr failure;
  try {
    view = views_->agree(place, stop);
  } catch (const Error&) {
    failure = std::current_exception();
  }
  lock.lock();
  agreed_ = std::move(view);
  failure_ = failure;
  changed_.notify_all();
}

void ViewFollower::on_urgent() {
  const std::lock_guard lock(mutex_);
  // Not of an engine that is being made.
  if (phase_ == Phase::apart) interrupted_->interrupt_operations();
  changed_.notify_all();
}

void ViewFollower::await_view() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return agreed_ || failure_; });
  if (failure_) std::rethrow_exception(failure_);
  next_ = std::exchange(agreed_, std::nullopt);
}

const launch::View* ViewFollower::follow(Before before) {
  if (!views_ || departed_ || (before == Before::operation && called_gently())) return nullptr;
  enter(Phase::between);
  if (!next_) {
    const std::unique_lock lock(mutex_);
    if (!named_) return nullptr;
  }
  if (!next_) await_view();
  while (reduces() || next_->first.steps <= engine_->steps()) {
    if (leaves(*next_)) {
      depart(*next_);
      return nullptr;
    }
    const bool comes_later = before == Before::operation && (next_->admission != 0 || views_->began_gently());
    if (!comes_later && form(*next_)) {
      next_.reset();
      return nullptr;
    }
    if (comes_later) decline();
    views_->call("the view before fell");
    enter(Phase::between);
    await_view();
  }
  return &*next_;
}

// ---- a new view

std::unique_ptr<Engine::Impl> ViewFollower::build(const launch::View& view, const EngineWaits& waits) {
  WorldParts world = world_;
  const std::shared_ptr<comm::Transport> transport = transport_of(view);
  if (transport) world.transport = transport.get();
  roster_.take_in(view.members, gossip::machines_of(*world.transport, view.members));
  world.members = roster_.ordered(view.members);
  EngineOptions options = options_;
  options.cut = engine_->cut();
  options.schedule.shape = roster_.shape(world.members);
  std::vector<Segment> segments = segments_;
  for (std::size_t i = 0; i < segments.size(); ++i)
    segments[i].data = engine_->bucket_of(i).data(i);
  return std::make_unique<Engine::Impl>(std::move(world), std::move(options), std::move(segments), device_,
                                        waits);
}

void ViewFollower::decline() {
  {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::open;
    named_ = false;
  }
  KITH_CHECK(!views_->stands({}), "a view stands when all its members have come");
}

bool ViewFollower::form(const launch::View& view) {
  const Clock::Time start = world_.clock->now();
  {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::open;
    named_ = false;
  }
  engine_->wait_for_device();
  const EngineWaits waits;
  std::unique_ptr<Engine::Impl> next;
  std::exception_ptr failure;
  try {
    inherit(view);
    // Who could not open does not come; the others' windows would wait for it.
    const std::jthread watcher([&](const std::stop_token& stop) {
      if (views_->falls(stop)) waits.cancel();
    });
    next = build(view, waits);
    interrupt_on_call(*next);
  } catch (const InputError& error) {
    views_->stands({});
    throw Error(cat("cannot go on with ", view.members.size(), " workers: ", error.what()),
                cat(world_.self(), ", view ", view.members.view), "go on from the last checkpoint");
  } catch (const Error&) {
    failure = std::current_exception();
  }
  const bool gently = view.admission != 0 || views_->began_gently();
  if (!views_->stands(next ? std::optional(place_.operations) : std::nullopt)) {
    interrupt_on_call(*engine_);
    const auto is_gone = [&](WorkerId w) { return gone(w); };
    const bool own = failure && !waits.rounds->cancelled();
    const bool late = own && std::ranges::none_of(view.members.workers, is_gone);
    // Whoever stood still for that long is left out of the next one, or has come to itself.
    if (late && ++falls_of_its_own_ == kFallsOfItsOwn) std::rethrow_exception(failure);
    world_.log->warning(cat("view ", view.members.view,
                            " falls: ", late ? "its windows could not be opened" : "another worker is gone"));
    return false;
  }
  try {
    take_state(*next, view);
  } catch (const Error& error) {
    interrupt_on_call(*engine_);
    world_.log->warning(cat("view ", view.members.view, ", taking over the state: ", error.what()));
    return false;
  }
  begin(std::move(next), view, gently);
  world_.log->info(cat("view ", view.members.view, " has begun, ", seconds(world_.clock->now() - start),
                       " s after this worker came to its first step"));
  return true;
}

void ViewFollower::begin(std::unique_ptr<Engine::Impl> next, const launch::View& view, bool gently) {
  std::vector<WorkerId> missing, come;
  const Members before = engine_->world().members;
  const auto was_there = [&](WorkerId w) {
    return std::ranges::find(before.workers, w) != before.workers.end();
  };
  std::ranges::copy_if(before.workers, std::back_inserter(missing), [&](WorkerId w) { return !view.has(w); });
  std::ranges::copy_if(view.members.workers, std::back_inserter(come),
                       [&](WorkerId w) { return !was_there(w); });
  if (next->world().rank() == 0) {
    world_.log->warning(cat("view ", view.members.view, ", from step ", view.first.steps,
                            " on: ", view.members.size(), " workers",
                            missing.empty() ? "" : cat(", without ", names_of(missing)),
                            come.empty() ? "" : cat(", with ", names_of(come))));
  }
  began_ = view.first.steps;
  left_.insert(left_.end(), view.left.begin(), view.left.end());
  engine_ = std::move(next);
  if (const auto transport = transport_of(view)) world_.extensible->move_to(transport);
  inherited_.clear();
  {
    const std::lock_guard lock(mutex_);
    standing_ = engine_->world().members;
    entrance_.reset();
  }
  owed_.reset();
  falls_of_its_own_ = 0;
  if (!apart_.empty()) views_->call(std::exchange(apart_, {}));
  if (gently) return;  // all came here between operations
  if (view.first.operations > place_.operations) {
    owed_ = view;
  } else {
    replay(view);
  }
}

// What sums over workers that are gone begins again.
void ViewFollower::take_state(Engine::Impl& next, const launch::View& view) {
  next.restore(view.first.steps);
  std::vector<StateSpan> from = engine_->state();
  std::vector<StateSpan> to = next.state();
  const auto of_view = [](const StateSpan& span) { return span.of_view; };
  std::erase_if(from, of_view);
  std::erase_if(to, of_view);
  KITH_CHECK_EQ(from.size(), to.size(), "views cut the model alike");
  const bool resets = engine_->tracks();
  for (std::size_t k = 0; k < from.size(); ++k) {
    if (resets && from[k].of_algorithm) continue;
    KITH_CHECK_EQ(from[k].bytes.size(), to[k].bytes.size(), from[k].name);
    std::memmove(to[k].bytes.data(), from[k].bytes.data(), from[k].bytes.size());
  }
  if (resets) world_.log->warning("gradient tracking begins anew: its sums counted other workers");
  add_inherited(next);
  share_farthest(next, view);
  if (nodes_are_models(options_)) unify_node(next);
  next.resume();
}

void ViewFollower::share_farthest(Engine::Impl& next, const launch::View& view) const {
  const auto farthest = std::ranges::find_if(
      view.reached, [&](const launch::Progress& p) { return p.steps == view.first.steps; });
  const bool behind = std::ranges::any_of(
      view.reached, [&](const launch::Progress& p) { return p.steps < view.first.steps; });
  const bool newcomer_takes = view.admission != 0 && next.has_outer_state();
  if ((reduces() && behind) || newcomer_takes) {
    const WorkerId root = view.members.at(static_cast<Rank>(farthest - view.reached.begin()));
    const bool takes = reduces() || engine_->world().size() == 1;
    next.share_state(next.world().members.rank_of(root),
                     takes ? Engine::Impl::Take::yes : Engine::Impl::Take::no);
  }
}

// The view stands, so its members begin it all the same: they would wait for whoever does not.
void ViewFollower::unify_node(Engine::Impl& next) {
  try {
    next.unify_node();
  } catch (const Error& error) {
    if (next.failed()) throw;
    next.interrupt_gradients();
    apart_ = error.what();
  }
}

void ViewFollower::replay(const launch::View& view) {
  const bool wanted = std::ranges::any_of(view.reached, [&](const launch::Progress& p) {
    return p.steps == view.first.steps && p.operations < view.first.operations;
  });
  if (!wanted || !last_again_) return;
  try {
    last_again_(*engine_);
  } catch (const Error& error) {
    // The next view is called for, and it is done again there.
    views_->call(error.what());
  }
}

// ---- steps

bool ViewFollower::complete_gradients(std::span<SegmentInput> inputs) {
  if (!views_ || !averages_gradients(options_)) return true;
  const std::int64_t steps = engine_->steps();
  while (engine_->steps() == steps) {
    if (!reduces() && next_) {  // and it begins later
      engine_->use_own_gradients();
      return true;
    }
    if (!enter(Phase::open)) {
      follow();
      continue;
    }
    std::string problem;
    try {
      if (!reduces() && engine_->world().members.view > 0 && steps == began_) share_rates(inputs);
      if (const auto missing = engine_->reduce(inputs)) problem = cat(*missing, " is missing");
    } catch (const Error& error) {
      if (engine_->failed()) throw;
      problem = error.what();
    }
    if (problem.empty()) return true;
    if (!called_gently()) views_->call(problem);
    enter(Phase::between);
    await_view();
    // Who is ahead may be in an operation, and wait for this worker there.
    if (reduces() && next_->first.steps > steps && called_gently()) views_->call(problem);
    follow();
  }
  return false;
}

StepReport ViewFollower::step(std::span<const SegmentInput> inputs, const StepOptions& options) {
  KITH_CHECK(!departed_, cat(world_.self(), " has left, and steps"));
  const std::int64_t steps = engine_->steps();
  follow();
  StepReport report;
  report.step = steps;
  std::vector<SegmentInput> own(inputs.begin(), inputs.end());
  // Behind the others, in all-reduce: their step is this worker's too.
  if (engine_->steps() == steps && complete_gradients(own)) {
    while (views_ && !enter(Phase::moving))
      follow();
    report = engine_->step(own, options);
  }
  if (views_) {
    enter(Phase::between);
    if (!report.lost.empty()) views_->call(cat(report.lost.front(), " is gone"));
    // Its node is one model no longer, and the next view makes it one.
    if (nodes_are_models(options_) && !report.late.empty())
      views_->call(cat(report.late.front(), " is late"));
    copy_if_wanted();
  }
  report.view = engine_->world().members.view;
  return report;
}

double ViewFollower::gradient_norm(std::span<const SegmentInput> inputs) {
  require_gradients(inputs);
  return engine_->gradient_norm(inputs);
}

void ViewFollower::find_non_finite(std::span<const SegmentInput> inputs, float* found) {
  require_gradients(inputs);
  engine_->find_non_finite(inputs, found);
}

std::vector<bool> ViewFollower::mean_gradients(std::span<const SegmentInput> inputs,
                                               std::span<void* const> to) {
  require_gradients(inputs);
  return engine_->mean_gradients(inputs, to);
}

// Once in a view, which may be asked for the gradients before the step.
void ViewFollower::share_rates(std::span<SegmentInput> inputs) {
  const std::uint32_t view = engine_->world().members.view;
  if (shared_rates_in_ != view) {
    engine_->share_rates(inputs);
    shared_rates_.assign(inputs.begin(), inputs.end());
    shared_rates_in_ = view;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].lr = shared_rates_[i].lr;
    inputs[i].decay = shared_rates_[i].decay;
  }
}

bool ViewFollower::average_inside(std::span<double> numbers) {
  if (!views_ || !nodes_are_models(options_)) {
    engine_->average_inside(numbers);
    return true;
  }
  if (!enter(Phase::open)) return false;
  std::string problem;
  try {
    engine_->average_inside(numbers);
  } catch (const Error& error) {
    if (engine_->failed()) throw;
    problem = error.what();
  }
  enter(Phase::between);
  if (!problem.empty() && !called_gently()) views_->call(problem);
  return problem.empty();
}

void ViewFollower::require_gradients(std::span<const SegmentInput> inputs) {
  std::vector<SegmentInput> own(inputs.begin(), inputs.end());
  if (complete_gradients(own)) return;
  throw Error("the others have made this step already, with means that this worker has not",
              cat(world_.self(), ", step ", engine_->steps()),
              "start it again: it goes on from a checkpoint");
}

}  // namespace kith::engine
