#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include <unistd.h>

#include "kith/engine/world.h"
#include "kith/launch/join.h"
#include "python/src/remembering_transport.h"

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
  explicit World(launch::World world)
      : world_(std::make_unique<launch::World>(std::move(world))), transport_(world_->transport()) {}

  // REQUIRES, here and below: not closed.
  const launch::World& launch() const { return *world_; }
  // The same as engines see it.
  engine::World engine() {
    engine::World seen = engine::seen_by_engine(*world_);
    seen.transport = &transport_;
    return seen;
  }
  // Ends the waits of every engine here, for good.
  void cancel() { transport_.cancel(); }
  // Leaves. REQUIRES: no engine is open here.
  void close() { world_.reset(); }

 private:
  std::unique_ptr<launch::World> world_;
  RememberingTransport transport_;
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
