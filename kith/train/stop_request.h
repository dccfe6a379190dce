#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kith/engine/world.h"

namespace kith::train {

// What can be asked of all workers; a later one includes the earlier.
enum class Request : std::uint8_t { save, interrupt, terminate };  // the last two: save and end

struct StopRequestOptions {
  std::string name = "requests";  // tells several apart; the same on every worker
  // For the others to say where they are.
  Clock::Duration patience = std::chrono::minutes(10);
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
// ask and due by one thread. The world outlives it.
class StopRequests {
 public:
  explicit StopRequests(const engine::World& world, StopRequestOptions options = {});
  // At once, whatever the store does.
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  // Never waits. Idempotent until it has come due.
  void ask(Request request);

  // What is to be done now. REQUIRES: called once between any two steps, with the steps done. Waits only
  // between a request and the agreement on its step; Error when a worker is lost meanwhile, or says nothing
  // within the patience.
  std::optional<Request> due(std::int64_t steps);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kith::train
