#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kith/engine/world_parts.h"

namespace kith::train {

// What can be asked of all workers; a later one includes the earlier.
enum class Request : std::uint8_t { save, interrupt, terminate };  // the last two: save and end

struct StopRequestOptions {
  std::string name = "requests";  // tells several apart; the same on every worker
  // For the others to say where they are.
  Clock::Duration patience = std::chrono::minutes(10);
  // This worker has joined a job that runs: it looks in the Store, when `due` is called first, for what was
  // asked before.
  bool joined = false;
};

// Workers are not at the same step, yet all must save (or stop) at the same one.
//
//   loop: if (interrupted) requests.ask(Request::interrupt);
//         if (auto request = requests.due(model.steps())) { save; if (*request != Request::save) break; }
//         ... model.step();
//
// A thread of each worker hears of a request through the Store and names the next step that its worker comes
// to, which the worker does not pass before the agreement is known; the largest of these is agreed on. So the
// steps never ask the Store, nobody can have passed the agreed step whatever the rounds and the delays, and
// what a request costs is that moment between two steps.
//
// Who is asked follows the members of the model (follow). A newcomer calls `due` first after a step that it
// has made as a member, and after all members have followed: what was agreed on for that step or a later one
// without asking it, it finds in the Store, and what is being agreed on waits for its answer or is waited
// for.
//
// ask, due and follow by one thread. The world outlives it.
class StopRequests {
 public:
  explicit StopRequests(const engine::WorldParts& world, StopRequestOptions options = {});
  // At once, whatever the store does.
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  // Never waits. Idempotent until it has come due.
  void ask(Request request);

  // What is to be done now. REQUIRES: called once between any two steps, with the steps done. Waits only
  // between a request and the agreement on its step; Error when a worker that is alive says nothing within
  // the patience. Who is lost is not asked.
  std::optional<Request> due(std::int64_t steps);

  // From now on these are the members. Never waits.
  void follow(const Members& members);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kith::train
