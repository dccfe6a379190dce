#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/newcomers.h"
#include "cli/supervisor.h"
#include "kith/base/clock.h"

namespace kith::cli {

// Where a worker runs.
struct Seat {
  int host = 0;
  int local = 0;  // on that machine; a newcomer's is that of the worker that it replaces, or one that is free
};

struct CrewOptions {
  std::vector<int> hosts;  // how many workers begin on each
  std::optional<Elastic> elastic = {};
  // Starts a worker, which then is of the crew.
  std::function<void(int worker, Seat seat)> start;
  // Asks a worker to leave the run.
  std::function<void(int worker, Seat seat)> ask_to_leave;
  // Nobody runs any more, and nobody comes.
  std::function<void()> over = {};
};

// The workers of a launch: who runs where, who comes for whom, who is to leave. Ids count on from those that
// began. It starts and ends no process itself. One thread, that of the supervisor, which outlives it.
class Crew {
 public:
  Crew(Supervisor& supervisor, CrewOptions options);

  // Starts those that begin.
  void begin();
  int began_with() const { return began_with_; }

  // A worker has ended; `left`: on purpose, and the others go on. With `elastic` a newcomer comes for one
  // that died, a moment later, to the same seat.
  void ended(int worker, const Ending& ending, bool left);
  // A machine has ended, and nobody comes there any more: who was there. With `elastic` newcomers come for
  // them to the machines with the fewest workers, unless `code` says that it ended in order.
  std::vector<int> host_ended(int host, int code);

  // "worker 3 and worker 5", of all that run.
  std::string names() const;

  // For `kith scale`: says who comes or leaves. `can_leave`: they know what to do when they are asked to.
  // InputError when it cannot be.
  std::string scale_to(int wanted, bool can_leave);

 private:
  struct Worker {
    Seat seat;
    Clock::Time began;
    bool leaves = false;
  };

  void start(int worker, Seat seat);
  // A moment later.
  void replace(int worker, const Worker& gone, int code);
  // Nobody comes any more.
  bool closing() const { return one_finished_ || supervisor_.ending(); }
  bool no_host_left() const { return gone_hosts_.size() == options_.hosts.size(); }
  void say_when_over();
  std::string add(int many);
  std::string take_away(int many);
  // On the machine with the fewest workers of those that are there.
  Seat free_seat() const;

  Supervisor& supervisor_;
  const CrewOptions options_;
  const int began_with_;
  Newcomers newcomers_;
  std::map<int, Worker> running_;  // by id
  std::set<int> gone_hosts_;
  int coming_ = 0;  // newcomers that are about to be started
  bool one_finished_ = false;
};

}  // namespace kith::cli
