#pragma once

#include "kith/base/clock.h"
#include "kith/base/ids.h"
#include "kith/base/log.h"
#include "kith/comm/store.h"
#include "kith/comm/transport.h"
#include "kith/gossip/device_reducer.h"
#include "kith/launch/world.h"
#include "kith/telemetry/sink.h"

namespace kith::engine {

// One worker's surroundings as the engine sees them: parts of a launch::World, or a test's. Everything
// referred to outlives whatever is built on it.
struct World {
  comm::Transport* transport = nullptr;
  comm::Store* store = nullptr;
  Members members;
  const Clock* clock = nullptr;
  Log* log = nullptr;                // never null: NullLog when nobody listens
  telemetry::Sink* trace = nullptr;  // null: no trace
  // How all-reduce on devices goes past the hosts' memory.
  gossip::MakeDeviceReducers device_reducers = gossip::make_device_reducers;

  WorkerId self() const { return transport->self(); }
  Rank rank() const { return members.rank_of(self()); }
  int size() const { return members.size(); }
};

inline World seen_by_engine(const launch::World& world) {
  return {&world.transport(), &world.store(), world.members(), &world.clock(), &world.log(), nullptr};
}

}  // namespace kith::engine
