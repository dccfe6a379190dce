#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/error.h"
#include "kith/base/ids.h"
#include "kith/base/log.h"
#include "kith/comm/store.h"
#include "kith/comm/transport.h"

namespace kith::launch {

// How far a worker is: steps, then operations with everybody, since the run began.
struct Progress {
  std::int64_t steps = 0;
  std::int64_t operations = 0;
  auto operator<=>(const Progress&) const = default;
};

// Where a worker stands, as it tells the others.
struct Place {
  Progress progress;
  std::vector<double> values = {};  // what its last operation gave it, when that was numbers
  bool leaves = false;              // it goes, on purpose
  bool busy = false;                // in the middle of an operation
};

// Who trains together, and from where on.
struct View {
  Members members;
  Progress first;                 // the farthest that anybody was: there it begins
  std::vector<Progress> reached;  // by rank: which place each had named
  std::vector<double> values;     // what the farthest worker's last operation gave it, when that was numbers
  std::vector<WorkerId> left = {};  // the members of the view before that go on purpose
  // Which admission's newcomer it takes in (kith/launch/admissions.h), whose transport its members use; 0:
  // none.
  std::int64_t admission = 0;

  bool has(WorkerId worker) const;
};

// A worker that may become a member.
struct Candidate {
  WorkerId worker;
  std::int64_t admission = 0;
  std::int64_t steps = 0;  // of the state that it holds
};

// A worker that the others have gone on without, alive or not.
class LeftOut : public Error {
 public:
  using Error::Error;
};

struct ViewsOptions {
  std::string name;  // of the model: several in one process change their views apart
  // For a member that is alive to say where it is. Who has not by then is left out.
  Clock::Duration patience = std::chrono::minutes(10);
  // Whether a member is gone; empty: as the transport says.
  std::function<bool(WorkerId)> lost = {};
  // Whom to take in beside these members, in the view of that number; nothing: nobody. Asked by whoever
  // proposes.
  std::function<std::optional<Candidate>(const Members& members)> candidate = {};
  // By a thread of its own, once for every view that ends. It may agree() there, while its worker finishes
  // what it is at. A stop is requested when the Views end. Must not throw.
  std::function<void(const std::stop_token&)> on_called = {};
  // By another one, when a view that was called gently becomes urgent. Must not throw, nor wait.
  std::function<void()> on_urgent = {};
};

// How the workers of a run agree on who goes on when one is gone. The Store decides, by keys that are set
// once; rounds never ask it.
//
//   views.call("worker 3 is gone");         // whoever notices; the others hear of it: on_called
//   View next = views.agree({steps, ...});  // everybody
//   ... runs on to next.first.steps in the old view, opens windows with next.members ...
//   if (!views.stands(opened)) again: call, agree
//
// Note [How a view is agreed on]
// Every member writes the place that it will come to whatever the others do, and does not pass it. The one
// with the lowest number that is alive hears the others out: each has named its place, or is lost. It
// proposes those that have, from the farthest place on, and the first proposal that the Store takes is the
// view; when the proposer dies the next one proposes. All run on to the farthest place, and nobody needs more
// than that of anybody. A view stands when every member has opened its windows; when one died meanwhile it
// falls, nobody has moved, and the next one is agreed on. So two sides never both go on: there is one Store,
// and each key in it is set once.
//
// A worker that is gone is seen by those who shared windows with it, its neighbours, and need not be by the
// one that hears the others out. So each member tells in the Store of those that are lost to it, and all go
// by that. Where two have lost each other, whoever told first is right: what it tells of the other counts,
// and what the other tells does not.
//
// A member that leaves on purpose says so with its place, and is not in the view.
//
// A newcomer calls *gently*: nobody is gone, so operations with everybody are not cut off, and the view
// begins in a step of each member, when those are done. If somebody goes meanwhile, whoever notices makes the
// call urgent, as any other. A view with a newcomer that falls is followed by one that has it too, but not
// while a member is in the middle of an operation, of which the newcomer knows nothing.
class Views {
 public:
  // Everything referred to outlives it.
  Views(comm::Store& store, comm::Transport& transport, Members first, const Clock& clock, Log& log,
        ViewsOptions options);
  // Of a newcomer: the view that takes it in has been agreed on, and is to stand.
  Views(comm::Store& store, comm::Transport& transport, const View& agreed, const Clock& clock, Log& log,
        ViewsOptions options);
  // At once, whatever the store does.
  ~Views();
  Views(const Views&) = delete;
  Views& operator=(const Views&) = delete;

  // Whether somebody has called for the next view. Never waits.
  bool called() const { return called_.load(); }
  // The same, and it is not urgent: until the view begins, operations go on in the one that stands.
  bool gentle() const { return called_.load() && gentle_.load() && !urgent_.load(); }
  // The call was gentle, urgent or not by now.
  bool began_gently() const { return gentle_.load(); }
  // Urgently. Idempotent. Error when the Store is lost.
  void call(const std::string& why);

  // The next view. `place`: where this worker will be whatever the others do. Bounded by the patience, and
  // says whom it waits for. LeftOut when the others have gone on without this worker and it did not ask for
  // it, Error when the Store is lost or a stop was requested.
  View agree(const Place& place, const std::stop_token& stop = {});
  // Whether the view just agreed on stands: all its members have come here, with their windows open. Bounded
  // likewise. `opened`: the operations that this worker has done so far; nothing: it does not come. REQUIRES:
  // on_called is not under way.
  bool stands(std::optional<std::int64_t> opened);
  // Waits until the view just agreed on falls: true. False when it stands, a stop is requested or the Store
  // is lost. By another thread, between agree() and stands().
  bool falls(const std::stop_token& stop);
  // What that member of the view that stands had done then.
  std::int64_t opened_after(WorkerId member);

 private:
  std::string key(std::string_view part) const;
  void watch();
  // Tells of a gentle call that has become urgent.
  void watch_for_urgency();
  // To this worker, or as a member has told.
  bool lost(WorkerId worker) const;
  bool lost_here(WorkerId worker) const;
  // Tells the others of members that are lost to this worker, and hears what they have told.
  void exchange_losses(const std::stop_token& stop);
  // The lowest member that is alive.
  WorkerId speaker() const;
  // The value that `decide` of the speaker has given the key. Takes over from a speaker that is lost, or has
  // not spoken within the patience.
  std::string decided(std::string_view part, const std::function<std::string()>& decide,
                      const std::stop_token& stop);
  // What a member has written under `part`; empty when it is lost or does not within the patience.
  // `over`: whether its word is no longer wanted.
  std::string hear(WorkerId worker, std::string_view part, Deadline deadline, const std::stop_token& stop,
                   const std::function<bool()>& over = {});
  // Whether all members of the view have opened their windows. Bounded by the patience.
  bool all_opened();
  std::string propose(const std::stop_token& stop);
  void take_in(View& view);
  // Those who were in no view that stood.
  void leave_newcomers_out(View& view) const;

  comm::Store& store_;
  comm::Transport& transport_;
  const Clock& clock_;
  Log& log_;
  const ViewsOptions options_;
  Members members_;              // of the last view that was agreed on
  std::uint32_t next_ = 1;       // the view that is to be agreed on, or that is to stand
  std::int64_t admission_ = 0;   // of the view that was agreed on and does not stand yet
  std::vector<WorkerId> stood_;  // the members of the last view that stood
  // Of the view that is to be agreed on, or that is to stand:
  std::set<WorkerId> reported_;  // whom members have told of, this one included
  int heard_ = 0;                // words on the list of those
  std::atomic<bool> called_{false};
  std::atomic<bool> gentle_{false};
  std::atomic<bool> urgent_{false};
  std::jthread hurry_;    // while a gentle call may become urgent; the watcher makes it
  std::jthread watcher_;  // last: it uses everything above
};

// The word of a call that is gentle.
std::string gentle_call(const std::string& why);

// Where the Store has what concerns the views of that name; calls and views are found there by newcomers.
std::string views_key(std::string_view name, std::string_view part);
std::string view_key(std::string_view name, std::uint32_t view, std::string_view part);

// For the Store. Error when the text is none of a view.
std::string encode(const View& view);
View decode_view(const std::string& text);

}  // namespace kith::launch
