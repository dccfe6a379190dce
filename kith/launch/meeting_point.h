#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kith/base/log.h"
#include "kith/comm/net/address.h"
#include "kith/comm/tcp_store_server.h"
#include "kith/comm/will_store.h"

namespace kith::launch {

// Where the workers of a run find each other, in words of KITH_STORE and --store:
//   PATH              a folder that they share; it has a '/'
//   HOST:PORT         a TCP store in worker 0's process
//   tcp://HOST:PORT   a TCP store that somebody else serves, such as kith launch
//   etcd://HOST:PORT,HOST:PORT,.../RUN   an etcd cluster (port 2379 where none is named); RUN is another one
//                     for every run
struct MeetingPoint {
  std::string folder;
  comm::net::Address address;                    // where `folder` and `members` are empty
  std::string origin;                            // how it was found: "MASTER_PORT + 1", "KITH_STORE"
  bool served = false;                           // the store outlives the workers: none of them serves it
  std::vector<comm::net::Address> members = {};  // of the etcd cluster
  std::string run = {};                          // there

  bool is_folder() const { return !folder.empty(); }
  bool is_etcd() const { return !members.empty(); }
  // A worker is to serve it.
  bool by_worker() const { return !is_folder() && !served; }
  // As above.
  std::string text() const;
};

// InputError naming `origin` when the text is none of these.
MeetingPoint parse_meeting_point(std::string_view text, const std::string& origin);

// With a name that is drawn, where it is etcd and the run has none. For who starts all the workers.
MeetingPoint with_run(MeetingPoint point);

struct ServeOptions {
  std::string interface = {};  // to listen on; empty: the address's own
  std::string secret = {};     // of the run
  Log* log = nullptr;          // hears where it listens; may be null; outlives the server
};

// Serves the store at a meeting point that is an address. Error naming the origin and the remedy when the
// port is in use.
std::unique_ptr<comm::TcpStoreServer> serve_store(const MeetingPoint& at, const ServeOptions& options);

struct ReachOptions {
  std::string interface = {};  // to connect from; empty: the kernel's choice
  std::string secret = {};     // of the run
  std::string remedy = "whoever serves it has ended, or cannot be reached: see why";
  Log* log = nullptr;  // may be null; outlives the store
};

// The store at a meeting point, for who does not serve it: waits for it to come up. Error when it does not
// before the deadline. REQUIRES: an etcd cluster with a run.
std::shared_ptr<comm::WillStore> reach_store(const MeetingPoint& at, const ReachOptions& options,
                                             Deadline deadline);

}  // namespace kith::launch
