#pragma once

#include "kith/base/clock.h"
#include "kith/base/ids.h"
#include "kith/base/log.h"
#include "kith/comm/extensible.h"
#include "kith/comm/store.h"
#include "kith/comm/transport.h"
#include "kith/gossip/device_reducer.h"
#include "kith/launch/world.h"
#include "kith/telemetry/sink.h"

namespace kith::engine {

// One worker's surroundings as the engine sees them: parts of a launch::World, or a test's. Everything
// referred to outlives whatever is built on it.
struct WorldParts {
  comm::Transport* transport = nullptr;
  comm::Store* store = nullptr;
  Members members;
  const Clock* clock = nullptr;
  Log* log = nullptr;                // never null: NullLog when nobody listens
  telemetry::Sink* trace = nullptr;  // null: no trace
  // How all-reduce on devices goes past the hosts' memory.
  gossip::MakeDeviceReducers device_reducers = gossip::make_device_reducers;
  // The transport, where newcomers can be taken in; null: nobody can.
  comm::ExtensibleTransport* extensible = nullptr;
  // This worker joins a job that runs, and is alone in `members`.
  bool newcomer = false;

  WorkerId self() const { return transport->self(); }
  Rank rank() const { return members.rank_of(self()); }
  int size() const { return members.size(); }
};

inline WorldParts seen_by_engine(const launch::World& world) {
  WorldParts seen{&world.transport(), &world.store(), world.members(), &world.clock(), &world.log(), nullptr};
  seen.extensible = world.extensible();
  seen.newcomer = world.newcomer();
  return seen;
}

}  // namespace kith::engine
