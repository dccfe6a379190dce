#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kith/engine/options.h"
#include "kith/engine/world.h"
#include "kith/graph/schedule.h"

namespace kith::train {

// What can be asked of all workers; a later one includes the earlier.
enum class Request : std::uint8_t { save, stop };  // stop: save and end

// How many steps any worker can have done while `rank` has done exactly `steps`: nobody passes a round in
// which it reads somebody who has not reached it. Follows the schedule's own rounds, so it holds for any
// topology and is not larger than it must be. Nothing when the rounds never connect everybody (a single
// worker is connected).
std::optional<std::int64_t> farthest_step(const graph::Schedule& schedule, int mix_every, Rank rank,
                                          std::int64_t steps);

// Workers are not at the same step, yet all must save (or stop) at the same one. Whoever wants it names a
// future step through the Store, beyond the farthest that anybody can have reached; everybody looks once
// between steps and acts when that step comes.
//
//   loop: if (interrupted) requests.ask(Request::stop, model.steps());
//         if (auto request = requests.due(model.steps())) { save; if (*request == Request::stop) break; }
//         ... model.step();
//
// One thread. The world outlives it.
class StopRequests {
 public:
  // `name` tells several apart; the same on every worker.
  StopRequests(const engine::World& world, const engine::EngineOptions& options,
               std::string name = "requests");
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  // Idempotent until it has come due. REQUIRES: called between steps with the steps done.
  void ask(Request request, std::int64_t steps);

  // What is to be done now. REQUIRES: called once between any two steps. Where algorithm 'none' lets workers
  // run freely it waits, boundedly, for the others to say where they are; Error when one does not.
  std::optional<Request> due(std::int64_t steps);

  // The agreed step, when one is known.
  std::optional<std::int64_t> agreed_step() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kith::train
