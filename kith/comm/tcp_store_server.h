#pragma once

#include <memory>
#include <string>

#include "kith/base/clock.h"
#include "kith/base/log.h"
#include "kith/comm/net/connection.h"

namespace kith::comm {

struct TcpStoreServerOptions {
  net::ListenOptions listen;
  std::string secret = {};  // of the run; empty: whoever speaks the protocol may join
  // For a fresh connection to prove itself.
  Clock::Duration handshake_limit = std::chrono::seconds(10);
  Log* log = nullptr;  // may be null; outlives the server; hears of refusals (address and reason)
};

// The store that TcpStores of all workers share; lives in the launcher's process, or in worker 0's. One
// thread serves everybody and sleeps in poll: a slow, silent, malformed or dying client holds up nobody else,
// and waits are answered when their key comes. Safe from any thread.
class TcpStoreServer {
 public:
  // Listens at once. Error when the port is in use.
  explicit TcpStoreServer(const TcpStoreServerOptions& options);
  // Closes every connection: clients that still ask get an Error. See drain.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  // Where it listens, in numbers.
  const net::Address& bound() const;

  // Takes no new connections and waits until every client has closed its own; false when the deadline passes
  // first. What the holder of the server does before it leaves.
  bool drain(Deadline deadline);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace kith::comm
