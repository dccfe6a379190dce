#pragma once

#include <memory>

#include "kith/base/clock.h"
#include "kith/base/ids.h"
#include "kith/base/log.h"
#include "kith/comm/extensible.h"
#include "kith/comm/store.h"
#include "kith/comm/tcp_store_server.h"
#include "kith/comm/transport.h"

namespace kith::launch {

class Vigil;

// Ends a store's server once the others have left, or after a while.
struct Farewell {
  void operator()(comm::TcpStoreServer* server) const;
};

// What a world is made of, in the order in which it is made. Only the log may be somebody else's.
struct WorldParts {
  std::unique_ptr<Log> own_log = {};
  std::unique_ptr<comm::TcpStoreServer, Farewell> server = {};  // worker 0, where it serves the store
  std::shared_ptr<comm::Store> store = {};
  std::shared_ptr<Vigil> vigil = {};  // where the workers are processes
  std::unique_ptr<comm::Transport> transport = {};
  comm::ExtensibleTransport* extensible = nullptr;  // the transport, where newcomers can be taken in
  bool newcomer = false;                            // it joins a job that runs
  Log* log = nullptr;                               // `own_log`, or one that outlives the world
};

// One worker's world, and the owner of all that belongs to it: who the others are, how they are reached,
// where they agree, the clock and the log. join() (kith/launch/join.h) and run_threads()
// (kith/launch/threads.h) make one; it outlives whatever is built on it. At its end a worker 0 that
// serves the store waits a moment for the others to leave. Safe from any thread.
class World {
 public:
  // REQUIRES: a store, a transport and a log.
  explicit World(WorldParts parts);
  World(World&&) noexcept = default;
  World& operator=(World&&) = delete;

  int size() const { return members_.size(); }
  Rank rank() const { return members_.rank_of(self()); }
  WorkerId self() const { return parts_.transport->self(); }
  const Members& members() const { return members_; }
  // True for a worker that joins a job that runs. It is the only member here; who the others are the engine
  // finds out, when it takes over the state of one of them.
  bool newcomer() const { return parts_.newcomer; }
  // How many workers of lower rank are on this machine: 0 for the first. A GPU is chosen by it.
  int local_rank() const;

  comm::Store& store() const { return *parts_.store; }
  comm::Transport& transport() const { return *parts_.transport; }
  // The same where newcomers can be taken in; else null.
  comm::ExtensibleTransport* extensible() const { return parts_.extensible; }
  const Clock& clock() const { return *clock_; }
  Log& log() const { return *parts_.log; }

 private:
  WorldParts parts_;
  Members members_;
  std::unique_ptr<const Clock> clock_;  // stays where it is when the world moves
};

}  // namespace kith::launch
