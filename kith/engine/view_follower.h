#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "kith/engine/engine.h"
#include "kith/engine/engine_impl.h"
#include "kith/engine/roster.h"
#include "kith/engine/state_parcel.h"
#include "kith/launch/admissions.h"
#include "kith/launch/views.h"

namespace kith::engine {

// Keeps an engine in step with the views of its run: holds the engine of the view that stands, and makes the
// next one when a member is gone, leaves or comes. Where EngineOptions::reforms is false there is one view.
// Three sources: view_follower.cc goes on without somebody, view_members.cc takes newcomers in and leaves,
// view_operations.cc does what everybody does together.
//
// Note [Going on without a worker]
// Whoever misses a neighbour in a round calls for the next view (kith/launch/views.h). A thread of each
// worker hears of it and names the place that its worker comes to: the end of the step that it is in, which
// its neighbours may be waiting for, or where it stands. The farthest of these is where the next view begins.
//
//   models     all run on to that step in the old view, with the weight of the lost put on themselves. Then
//              each opens windows with those that are left and publishes the model that it has. There is
//              nothing to undo.
//   gradients  (all-reduce) whoever could average all gradients has stepped, the others have not. Who is
//              behind takes the state of one who has; where nobody has, all average again, without the lost.
//   both       (nodes that are models) the call ends the averaging of gradients. Whoever stands at that step
//              averages again in the new view. The others run on to it as with models, and each uses its own
//              gradients: the workers of a node come apart. As the view begins each node takes the state of
//              its first worker.
//
// What is published anew is each worker's own model with its push-sum weight, so nothing of what the
// survivors hold is lost. A tracker sums over workers that are no longer there: it begins again.
//
// Operations with everybody (average, gather, ...) are counted. When a member is lost in one, some may have
// finished it and some not. Those behind learn the numbers of a gather from the view itself. For a mean of
// models everybody does it again in the new view; where the others have stepped since, it cannot be had, and
// is an Error that says so (Overtaken).
//
// Note [Coming and leaving]
// A newcomer begins as an engine of one worker that has a donor's state (kith/launch/admissions.h), and moves
// to the view that takes it in as everybody does. The state is that of the donor some steps ago: for models
// that is one more model among the others. With all-reduce it counts as one that is behind, and takes over
// the state of one that is not. In push-sum it has the donor's model and a weight of 1, so the mass of all
// grows by 1.
//
// Who leaves calls for a view too, says so with its place, and mixes on without gradients to where that view
// begins. In push-sum it then gives its mass to its heir, the first member of the view. Nothing else of it is
// needed.
class ViewFollower {
 public:
  // Of a newcomer: returns when it is a member.
  ViewFollower(WorldParts world, EngineOptions options, std::vector<Segment> segments,
               kernels::Device& device);
  ~ViewFollower();

  // Of the view that stands.
  Engine::Impl& now() const { return *engine_; }

  StepReport step(std::span<const SegmentInput> inputs, const StepOptions& options);
  double gradient_norm(std::span<const SegmentInput> inputs);
  void find_non_finite(std::span<const SegmentInput> inputs, float* found);
  std::vector<bool> mean_gradients(std::span<const SegmentInput> inputs, std::span<void* const> to);

  // False when the node could not: a view has been called for.
  bool average_inside(std::span<double> numbers);
  double average(std::span<void* const> to);
  double consensus_distance();
  void mean(std::span<double> numbers);
  std::vector<double> gather(double value);
  std::int64_t operations() const { return place_.operations; }
  std::int64_t began() const { return began_; }
  const std::vector<WorkerId>& left() const { return left_; }
  const std::optional<Joined>& joined() const { return joined_; }
  void give_along(std::function<std::vector<std::byte>()> extra) { extra_ = std::move(extra); }
  void finish();

 private:
  // Whether that worker is gone, member or about to be one.
  bool gone(WorkerId worker) const;
  launch::ViewsOptions views_options();

  // ---- view_members.cc
  void take_newcomers_in(std::int64_t after);
  launch::Admissions* admissions() const;  // null: nobody is taken in
  // A job that ends in order takes nobody in any more.
  void close_to_newcomers();
  // What makes a newcomer fit: the same on all workers.
  std::string facts() const;
  std::string objection(const std::string& facts, const Members& members) const;
  std::optional<std::vector<std::byte>> await_copy(const std::stop_token& stop);
  // Between two steps: a copy of the state, where a newcomer wants one.
  void copy_if_wanted();
  // Without what is of the view. Refers to the engine's memory.
  StateParcel parcel();
  // A newcomer's way in.
  void join_running();
  std::unique_ptr<Engine::Impl> alone_with(const StateParcel& parcel);
  // Of the view, in which not everybody may be known yet.
  std::shared_ptr<comm::Transport> transport_of(const launch::View& view) const;
  bool leaves(const launch::View& view) const;
  void depart(const launch::View& view);
  bool carries_mass() const;
  // Of the parcel in which that leaver's goes.
  std::string mass_name(const launch::View& view, WorkerId leaver) const;
  // What leavers give this worker, which is their heir.
  void inherit(const launch::View& view);
  void add_inherited(Engine::Impl& next);

  // What this worker is at, for the thread that names its place.
  //   between  where it stands: it begins nothing before the view is known
  //   moving   in a step, which it ends whatever happens
  //   open     in something that a call may end: its end is waited for
  //   apart    in an operation with everybody, which an urgent call may end, and a gentle one does not
  enum class Phase : std::uint8_t { between, moving, open, apart };

  // All-reduce, with everybody.
  bool reduces() const;
  // Out of `between` only where no place has been named, or the view is known: else false, and follow()
  // comes first.
  bool enter(Phase phase);
  // The Views' threads.
  void on_called(const std::stop_token& stop);
  void on_urgent();
  // A view has been called for, gently: operations go on in the one that stands.
  bool called_gently() const { return views_ && views_->gentle(); }
  // Moves to the next view when it has been called for and this worker has come to its beginning. Returns the
  // view that begins later, if there is one. A view that was called gently, or has a newcomer, begins in a
  // step, and falls where it would have to begin before an operation.
  enum class Before : std::uint8_t { step, operation };
  const launch::View* follow(Before before = Before::step);
  // Waits for the view that has been called for.
  void await_view();
  // Whether the view stands; the engine is then its engine.
  bool form(const launch::View& view);
  // It falls: this worker does not come.
  void decline();
  std::unique_ptr<Engine::Impl> build(const launch::View& view, const EngineWaits& waits);
  void take_state(Engine::Impl& next, const launch::View& view);
  void share_farthest(Engine::Impl& next, const launch::View& view) const;
  // Where nodes are models.
  void unify_node(Engine::Impl& next);
  // `gently`: nobody is in the middle of an operation.
  void begin(std::unique_ptr<Engine::Impl> next, const launch::View& view, bool gently);
  // Does again what somebody is still to do.
  void replay(const launch::View& view);
  // Whose waits end when the next view is called for.
  void interrupt_on_call(Engine::Impl& engine);
  // All-reduce: averages the gradients, in as many views as it takes. False when this worker took over the
  // state of one that had stepped already.
  // Where nodes are models: with those of the node, as long as they can be, and else each has its own; in the
  // first step of a view the rates of all become those of the first.
  bool complete_gradients(std::span<SegmentInput> inputs);
  void require_gradients(std::span<const SegmentInput> inputs);
  // Nodes that are models: what their workers went by before the view may differ.
  void share_rates(std::span<SegmentInput> inputs);
  // An operation with everybody: ends in numbers, or in an Error when somebody is missing.
  using Operation = std::function<std::vector<double>(Engine::Impl&)>;
  // The same for those who are behind; none: its numbers are enough for them.
  using Again = std::function<void(Engine::Impl&)>;
  std::vector<double> operate(const Operation& operation, Again again);

  const WorldParts world_;  // of the first view
  const EngineOptions options_;
  std::vector<Segment> segments_;
  kernels::Device& device_;
  std::unique_ptr<Engine::Impl> engine_;
  std::optional<launch::View> next_;  // known to begin later
  std::optional<launch::View> owed_;  // this one's: in it the others had done the operation that comes next
  Again last_again_;                  // of the last operation
  std::int64_t began_ = 0;            // the view
  Roster roster_;
  std::vector<WorkerId> left_;                     // on purpose, in all views so far
  std::vector<std::vector<std::byte>> inherited_;  // parcels of leavers, until a view stands
  std::optional<Joined> joined_;                   // this worker did
  std::function<std::vector<std::byte>()> extra_;  // of whoever uses the engine, for newcomers
  int falls_of_its_own_ = 0;                       // in a row
  bool departed_ = false;                          // this worker has left
  std::string apart_;                              // why the node is not one model in the view that begins
  std::vector<SegmentInput> shared_rates_;         // in the first step of a view
  std::uint32_t shared_rates_in_ = 0;              // that one

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  Phase phase_ = Phase::between;
  launch::Progress place_;           // where this worker stands, or from where it moves
  std::vector<double> last_values_;  // of the last operation
  bool named_ = false;               // the place, for the next view
  std::optional<launch::View> agreed_;
  std::exception_ptr failure_;  // to agree
  Engine::Impl* interrupted_ = nullptr;
  bool leaving_ = false;
  bool operating_ = false;                      // an operation is to be done, in this view or in the next
  std::shared_ptr<comm::Transport> entrance_;   // of a newcomer, until its first view stands
  Members standing_;                            // of the view that stands, for other threads
  std::optional<std::vector<std::byte>> copy_;  // of the state, for a newcomer
  std::atomic<bool> copy_wanted_{false};

  // Last: their threads use what is above.
  std::unique_ptr<launch::Admissions> admissions_;  // null: nobody is taken in
  std::unique_ptr<launch::Views> views_;            // null: one view
};

}  // namespace kith::engine
