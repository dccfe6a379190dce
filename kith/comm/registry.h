#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/ids.h"
#include "kith/base/log.h"
#include "kith/comm/losses.h"
#include "kith/comm/store.h"
#include "kith/comm/transport.h"

namespace kith::comm {

class InprocWorld;

// What the backends that reach other machines (ucx, routed) need besides.
struct NetworkOptions {
  std::string secret;     // of the run; who does not know it cannot join. Empty: the run has none
  std::string interface;  // "eth0", "ib0"; empty: that of the default route
  // Workers with equal text share a machine; empty: found out from the kernel, the network namespace and the
  // user.
  std::string machine;
  int lanes = 1;  // connections that share a long message
  // How long to wait at the store until every worker has come.
  Clock::Duration meet_within = std::chrono::seconds(60);
};

// One worker's place in a world, whatever the backend.
struct TransportOptions {
  WorkerId self;
  std::vector<WorkerId> workers;  // everybody, oneself included, ascending
  // How processes find each other (shm, ucx, routed); outlives the transport.
  Store* store = nullptr;
  int device = 0;  // in whose memory the windows lie, for backends of accelerators
  // What the threads of one process share (inproc): InprocWorld::create.
  std::shared_ptr<InprocWorld> world;
  Log* log = nullptr;  // may be null; outlives the transport and its windows
  // After how long a wait explains itself in the log.
  Clock::Duration long_wait = std::chrono::seconds(1);
  // Where memory is shared between processes: watch peers as on kernels before Linux 5.16, by one thread per
  // peer. There it is so whatever this says.
  bool plain_futexes = false;
  NetworkOptions network;
  // What is found out elsewhere about lost workers; may be null.
  std::shared_ptr<Losses> losses;
};

// This is the only place that knows all backends.
struct Backend {
  std::string_view name;
  std::string_view summary;
  // Empty when it works here, else why it does not ("this kith was built without UCX (libucx-dev)").
  std::string (*obstacle)();
  // InputError when the options lack what this backend needs.
  std::unique_ptr<Transport> (*create)(const TransportOptions& options);
};

// Those whose windows lie in host memory.
std::span<const Backend> backends();

// One of backends(), or of device_backends() (kith/comm/device_backends.h), whose windows are not for the
// host. InputError for a name that is not known (with a suggestion) or not available here.
std::unique_ptr<Transport> make_transport(std::string_view backend, const TransportOptions& options);

}  // namespace kith::comm
