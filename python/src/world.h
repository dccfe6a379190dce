#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "kith/engine/world_parts.h"
#include "kith/launch/join.h"
#include "python/src/ending_store.h"
#include "python/src/waits.h"

namespace kith::python {

// Lets go of what a process has inherited by fork() without ending it: its threads are the parent's.
struct EndInOwnProcess {
  pid_t owner = ::getpid();
  template <class T>
  void operator()(T* thing) const {
    if (owner == ::getpid()) delete thing;
  }
};

// A world of this process, and a way to end all waits in it.
class World {
 public:
  explicit World(launch::World world);

  // REQUIRES, here and below: not closed.
  const launch::World& launch() const { return *world_; }
  comm::Store& store() { return store_; }
  // The same as engines see it, with these members; none: those of the start. Only a worker that has become a
  // member knows others.
  engine::WorldParts engine(const std::vector<WorkerId>& members);
  // Ends the waits of every engine here, for good.
  void cancel() { waits_->cancel(); }
  // This worker fails, or was interrupted: the store hears no more of it. So a job that goes on without it
  // does not count as over.
  void fail() { store_.end(); }
  // Leaves. REQUIRES: no engine is open here.
  void close();

 private:
  std::unique_ptr<launch::World> world_;
  const std::shared_ptr<Waits> waits_ = std::make_shared<Waits>();
  EndingStore store_;
  std::unique_ptr<comm::Transport> transport_;
  comm::ExtensibleTransport* extensible_ = nullptr;  // the transport, where newcomers can be taken in
};

struct JoinRequest {
  launch::Environment environment;
  std::map<std::string, std::string> facts;
  std::string backend;
  std::optional<int> gpu;
  double patience_seconds = 0;
};

// Joins, while the interpreter sees to signals. REQUIRES: the caller holds the interpreter's lock.
std::shared_ptr<World> join(const JoinRequest& request);

}  // namespace kith::python
