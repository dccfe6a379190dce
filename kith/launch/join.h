#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/ids.h"
#include "kith/base/log.h"
#include "kith/comm/store.h"
#include "kith/comm/tcp_store_server.h"
#include "kith/comm/transport.h"
#include "kith/launch/assignment.h"

namespace kith::launch {

// Something that must be the same on all workers: {"train.batch", "64"}.
struct Fact {
  std::string name;
  std::string value;
};

struct JoinOptions {
  // What the workers must agree on. The versions of kith and of its protocols, the number of workers and the
  // launcher's run are always among it.
  std::vector<Fact> facts = {};
  // Of the transport; empty: choose_backend (kith/launch/backend.h) does it.
  std::string backend = {};
  // Where the model lies: the GPU's number on this machine, or none. Windows can then lie there too.
  std::optional<int> gpu = {};
  // For everybody to come.
  Clock::Duration patience = std::chrono::minutes(5);
  Log* log = nullptr;  // may be null; outlives the world
};

// A worker's world. At its end worker 0 waits a moment for the others to leave, because it holds the store.
class Joined {
 public:
  Joined(Joined&&) noexcept;
  Joined& operator=(Joined&&) = delete;
  ~Joined();

  comm::Store& store() const { return *store_; }
  comm::Transport& transport() const { return *transport_; }
  const Members& members() const { return members_; }
  WorkerId self() const { return transport_->self(); }

 private:
  Joined() = default;
  friend Joined join(const Assignment& assignment, const JoinOptions& options);

  std::unique_ptr<comm::TcpStoreServer> server_;  // worker 0, where the store is not a folder
  std::unique_ptr<comm::Store> store_;
  std::unique_ptr<comm::Transport> transport_;
  Members members_;
};

// Enters the world: opens the store (worker 0 serves it, and says where), proves knowledge of the run secret,
// agrees with everybody, and makes the transport. Blocks until all workers have come.
//
// InputError on every worker when some fact differs (the message names the fact, the workers and their
// values); on this one alone when its secret or its assignment is not right. Error when a worker has not come
// within the patience, on everybody that has; when the port is in use or the store is lost.
Joined join(const Assignment& assignment, const JoinOptions& options = {});

}  // namespace kith::launch
