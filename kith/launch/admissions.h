#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/error.h"
#include "kith/base/ids.h"
#include "kith/base/log.h"
#include "kith/comm/extensible.h"
#include "kith/comm/store.h"
#include "kith/launch/views.h"

namespace kith::launch {

// Note [How a worker joins]
// A newcomer has an id that nobody had. It applies, in the Store; a thread of every member hears of it. The
// lowest member that is alive answers with an *admission*: a number, the workers (the members and the
// newcomer) and a donor. All of these make a transport among themselves under that number, beside the one in
// use. The donor copies its state once, between two steps, and sends it from that thread through the new
// transport, while everybody trains. When the newcomer holds it, and all have the transport, it calls for a
// view (kith/launch/views.h). Whoever proposes that view takes the newcomer in; it begins like any other, and
// its members move to the new transport.
//
// One admission is under way at a time. What became of it is a key that is set once: `taken` with the number
// of a view, or why it failed: the newcomer or the donor is gone, or a transport could not be made. Then the
// newcomer applies again, and gets another number.

struct AdmissionsOptions {
  std::string name;        // of the model, as ViewsOptions has it
  std::int64_t after = 0;  // the last admission that does not concern this worker: a newcomer's own
  Clock::Duration patience = std::chrono::minutes(10);
  // The view that stands.
  std::function<Members()> members;
  // Why a newcomer that says this of itself cannot be taken in beside these members; empty: it can.
  std::function<std::string(const std::string& facts, const Members& members)> objection;
  // The state, copied between two steps. Nothing when a stop is requested first.
  std::function<std::optional<std::vector<std::byte>>(const std::stop_token& stop)> copy;
};

// A member's part in taking newcomers in. Safe from any thread.
class Admissions {
 public:
  // Hears every application from now on. Everything referred to outlives it.
  Admissions(comm::Store& store, comm::ExtensibleTransport& transport, const Clock& clock, Log& log,
             AdmissionsOptions options);
  // At once, whatever the store and the newcomer do.
  ~Admissions();
  Admissions(const Admissions&) = delete;
  Admissions& operator=(const Admissions&) = delete;

  // For whoever proposes a view: a newcomer that holds the state and that all these members can reach. It is
  // then taken, for the view of that number.
  std::optional<Candidate> candidate(const Members& members);
  // The transport of that admission; null where this worker does not have it.
  std::shared_ptr<comm::Transport> transport(std::int64_t admission) const;
  // What the admission under way knows of a worker that is no member yet; false where it is none of its.
  bool lost(WorkerId worker) const;

 private:
  struct Current {
    std::int64_t number = 0;
    WorkerId newcomer;
    std::vector<WorkerId> workers;
    std::shared_ptr<comm::Transport> transport;
  };

  std::string key(std::int64_t number, std::string_view part) const;
  void listen(const std::stop_token& stop);
  void admit(std::int64_t number, const std::string& application, const std::stop_token& stop);
  std::string answer(std::int64_t number, const std::string& application, const std::stop_token& stop);
  void give(const Current& current, const std::stop_token& stop);
  // Until the admission is over.
  void see_through(const Current& current, const std::stop_token& stop);
  void fail(std::int64_t number, const std::string& why, const std::stop_token& stop);

  comm::Store& store_;
  comm::ExtensibleTransport& transport_;
  const Clock& clock_;
  Log& log_;
  const AdmissionsOptions options_;
  mutable std::mutex mutex_;  // guards current_
  std::optional<Current> current_;
  std::condition_variable_any settled_;  // never notified: for a wait that a stop ends
  std::jthread listener_;                // last: it uses everything above
};

// The job was over, or nobody answered for it, before the newcomer became a member.
class TooLate : public Error {
 public:
  using Error::Error;
};

struct NewcomerOptions {
  std::string name;   // of the model
  std::string facts;  // of itself, for the members' `objection`
  Clock::Duration patience = std::chrono::minutes(10);
};

// What a newcomer has when it is about to become a member.
struct Entrance {
  View view;                                   // that takes it in; to be opened, and to stand
  std::shared_ptr<comm::Transport> transport;  // among its members
  std::vector<std::byte> state;                // of the donor
};

// A newcomer's part. Blocks until a view that takes it in has been agreed on. `look` gets the state as soon
// as it has come, and says how many steps it is after. InputError when the members object, TooLate when the
// job is over, Error when it does not come to a view within the patience.
Entrance enter(comm::Store& store, comm::ExtensibleTransport& transport, const Clock& clock, Log& log,
               const NewcomerOptions& options,
               const std::function<std::int64_t(const std::vector<std::byte>& state)>& look);

// From now on newcomers of that model are told that they are too late.
void close_admissions(comm::Store& store, const std::string& name);

}  // namespace kith::launch
