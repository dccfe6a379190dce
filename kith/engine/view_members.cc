// The follower's part in workers that come and leave: Note [Coming and leaving] in view_follower.h.
#include <algorithm>
#include <exception>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/engine/view_follower.h"
#include "kith/launch/parcel.h"

namespace kith::engine {
namespace {

constexpr auto kFarewell = std::chrono::seconds(30);  // for the others to take what a leaver gives

bool has(const std::vector<WorkerId>& workers, WorkerId worker) {
  return std::ranges::find(workers, worker) != workers.end();
}

}  // namespace

bool ViewFollower::gone(WorkerId worker) const {
  if (worker == world_.self()) return false;
  if (!world_.extensible || std::ranges::binary_search(world_.extensible->workers(), worker))
    return world_.transport->lost(worker);
  std::unique_lock lock(mutex_);
  if (const auto entrance = entrance_) {
    lock.unlock();
    return !has(entrance->workers(), worker) || entrance->lost(worker);
  }
  lock.unlock();
  const launch::Admissions* const admissions = this->admissions();
  return admissions && admissions->lost(worker);
}

launch::Admissions* ViewFollower::admissions() const {
  const std::lock_guard lock(mutex_);
  return admissions_.get();
}

// ---- newcomers, as members see them

void ViewFollower::take_newcomers_in(std::int64_t after) {
  if (!world_.extensible) return;
  launch::AdmissionsOptions admissions;
  admissions.name = options_.name;
  admissions.after = after;
  admissions.patience = options_.patience;
  admissions.members = [this] {
    const std::lock_guard lock(mutex_);
    return standing_;
  };
  admissions.objection = [this](const std::string& facts, const Members& members) {
    return objection(facts, members);
  };
  admissions.copy = [this](const std::stop_token& stop) { return await_copy(stop); };
  auto made = std::make_unique<launch::Admissions>(*world_.store, *world_.extensible, *world_.clock,
                                                   *world_.log, std::move(admissions));
  const std::lock_guard lock(mutex_);
  admissions_ = std::move(made);
}

void ViewFollower::close_to_newcomers() {
  if (!admissions_ || departed_ || std::uncaught_exceptions() > 0 || engine_->failed()) return;
  try {
    launch::close_admissions(*world_.store, options_.name);
  } catch (const Error&) {
    // The store is lost: newcomers do not find it either.
  }
}

std::string ViewFollower::facts() const {
  std::uint64_t digest = 0;
  for (const Segment& segment : segments_)
    digest = hash_words(digest, segment.count, static_cast<int>(segment.type), segment.layout_digest);
  return cat("algorithm ", options_.algorithm, ", optimizer ",
             options_.external_optimizer ? "of its own" : options_.optimizer.name, ", topology ",
             options_.schedule.topology, ", wire ", options_.wire ? name_of(*options_.wire) : "of the model",
             options_.codec.empty() ? "" : cat(", codec ", options_.codec), ", mixing ",
             options_.trigger.empty() ? cat("every ", options_.mix_every) : options_.trigger,
             nodes_are_models(options_) ? ", nodes as models" : "", ", ", segments_.size(),
             " parameters of digest ", digest);
}

std::string ViewFollower::objection(const std::string& facts, const Members& members) const {
  if (const std::string own = this->facts(); facts != own)
    return cat("the job trains with ", own, ", the newcomer with ", facts);
  if (options_.external_optimizer && reduces())
    return "with all-reduce, an optimizer of one's own cannot be given to a newcomer";
  graph::ScheduleOptions schedule = options_.schedule;
  // Where nodes are models it comes to one of them, or is one more.
  const int nodes = nodes_are_models(options_) ? options_.schedule.shape.nodes() : members.size();
  for (int size = nodes_are_models(options_) ? nodes : nodes + 1; size <= nodes + 1; ++size) {
    schedule.shape = graph::Shape::single_node(size);
    try {
      graph::make_schedule(schedule);
    } catch (const InputError& error) {
      return cat("no room for one more: ", error.what());
    }
  }
  return {};
}

std::optional<std::vector<std::byte>> ViewFollower::await_copy(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  copy_.reset();
  copy_wanted_ = true;
  changed_.wait(lock, stop, [&] { return copy_.has_value(); });
  copy_wanted_ = false;
  return std::exchange(copy_, std::nullopt);
}

StateParcel ViewFollower::parcel() {
  StateParcel parcel;
  parcel.steps = engine_->steps();
  parcel.roster = roster_;
  parcel.cut = engine_->cut();
  for (const StateSpan& span : engine_->state())
    if (!span.of_view) parcel.parts.push_back({span.name, span.bytes});
  return parcel;
}

void ViewFollower::copy_if_wanted() {
  if (!copy_wanted_) return;
  engine_->wait_for_device();
  const std::vector<std::byte> extra = extra_ ? extra_() : std::vector<std::byte>{};
  StateParcel own = parcel();
  own.extra = extra;
  std::vector<std::byte> bytes = encode(own);
  const std::lock_guard lock(mutex_);
  if (!copy_wanted_.exchange(false)) return;
  copy_ = std::move(bytes);
  changed_.notify_all();
}

std::shared_ptr<comm::Transport> ViewFollower::transport_of(const launch::View& view) const {
  if (view.admission == 0) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (entrance_) return entrance_;
  }
  const launch::Admissions* const admissions = this->admissions();
  auto transport = admissions ? admissions->transport(view.admission) : nullptr;
  if (!transport)
    throw Error(cat("has no way to those of admission ", view.admission), cat(world_.self()),
                "start it again: it goes on from a checkpoint");
  return transport;
}

// ---- a newcomer

void ViewFollower::join_running() {
  if (!world_.extensible || !can_reform(world_, options_)) {
    throw InputError("a job whose members do not change cannot be joined", cat(world_.self()),
                     "it needs OnLost::reform, and with `inside` no optimizer of one's own");
  }
  StateParcel state;
  launch::Entrance entrance =
      launch::enter(*world_.store, *world_.extensible, *world_.clock, *world_.log,
                    {options_.name, facts(), options_.patience}, [&](const std::vector<std::byte>& bytes) {
                      state = decode_state_parcel(bytes);
                      return state.steps;
                    });
  roster_ = state.roster;
  engine_ = alone_with(state);
  interrupted_ = engine_.get();
  place_ = {state.steps, 0};
  joined_ = Joined{state.steps, {state.extra.begin(), state.extra.end()}};
  {
    const std::lock_guard lock(mutex_);
    entrance_ = entrance.transport;
  }
  const launch::View& view = entrance.view;
  views_ = std::make_unique<launch::Views>(*world_.store, *world_.transport, view, *world_.clock, *world_.log,
                                           views_options());
  next_ = view;
  while (!form(*next_)) {
    views_->call("the view before fell");
    enter(Phase::between);
    await_view();
  }
  const auto founder =
      std::ranges::find_if_not(next_->members.workers, [&](WorkerId w) { return w == world_.self(); });
  if (founder != next_->members.workers.end()) {
    const std::lock_guard lock(mutex_);
    place_.operations = views_->opened_after(*founder);
  }
  next_.reset();
  take_newcomers_in(view.admission);
}

std::unique_ptr<Engine::Impl> ViewFollower::alone_with(const StateParcel& parcel) {
  WorldParts world = world_;
  EngineOptions options = options_;
  options.cut = parcel.cut;
  options.schedule.shape = graph::Shape::single_node(1);
  auto engine = std::make_unique<Engine::Impl>(std::move(world), std::move(options), segments_, device_);
  engine->restore(parcel.steps);
  take_parcel(parcel, engine->state());
  engine->resume();
  return engine;
}

// ---- leaving

bool ViewFollower::carries_mass() const {
  return engine_->carries_mass();
}

std::string ViewFollower::mass_name(const launch::View& view, WorkerId leaver) const {
  return cat(options_.name, "/mass/", view.members.view, "/", leaver.value);
}

bool ViewFollower::leaves(const launch::View& view) const {
  return has(view.left, world_.self());
}

void ViewFollower::finish() {
  if (!views_ || departed_) return;
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  const std::vector<SegmentInput> nothing(segments_.size());
  while (!departed_) {
    views_->call(cat(world_.self(), " leaves"));
    enter(Phase::between);
    if (!next_) await_view();
    // Where the view begins later, the neighbours count on this worker until then.
    while (follow()) {
      if (!enter(Phase::moving)) continue;
      if (nodes_are_models(options_)) engine_->use_own_gradients();
      engine_->step(nothing, {});
      enter(Phase::between);
    }
  }
}

void ViewFollower::depart(const launch::View& view) {
  departed_ = true;
  if (!carries_mass() || view.members.workers.empty()) return;
  const WorkerId heir = view.members.workers.front();
  try {
    launch::send_parcel(
        *world_.transport,
        {mass_name(view, world_.self()), world_.self(), heir, world_.clock->now() + kFarewell},
        encode(parcel()));
  } catch (const Error& error) {
    world_.log->warning(cat(heir, " could not be given the mass of ", world_.self(), ": ", error.what()));
  }
}

void ViewFollower::inherit(const launch::View& view) {
  if (!carries_mass() || view.members.workers.front() != world_.self()) return;
  for (const WorkerId leaver : view.left) {
    try {
      inherited_.push_back(launch::receive_parcel(
          *world_.transport,
          {mass_name(view, leaver), leaver, world_.self(), world_.clock->now() + kFarewell}));
    } catch (const Error& error) {
      world_.log->warning(cat("the mass of ", leaver, ", which leaves, is lost: ", error.what()));
    }
  }
}

void ViewFollower::add_inherited(Engine::Impl& next) {
  std::vector<DType> types;
  for (const Segment& segment : segments_)
    types.push_back(segment.type);
  const std::vector<StateSpan> state = inherited_.empty() ? std::vector<StateSpan>{} : next.state();
  for (const std::vector<std::byte>& bytes : inherited_)
    add_mass(state, decode_state_parcel(bytes), next.cut(), types);
}

}  // namespace kith::engine
