#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "kith/base/log.h"
#include "kith/comm/net/connection.h"
#include "kith/comm/store.h"

namespace kith::comm {

struct TcpStoreOptions {
  net::Address server;
  std::string secret = {};     // of the run; empty: none
  std::string interface = {};  // to connect from; empty: the kernel's choice
  // For an answer that need not wait for anybody, and for connecting later on.
  Clock::Duration patience = std::chrono::seconds(60);
  Log* log = nullptr;  // may be null; outlives the store
};

// The client of a TcpStoreServer: for workers on several machines. Each call has a connection to itself, kept
// for later calls, so threads do not hold each other up. Error with the server's address when it is lost.
class TcpStore final : public Store {
 public:
  // Connects, waiting for the server to come up. InputError when either side refuses the other's secret or
  // protocol; Error when the deadline passes.
  TcpStore(TcpStoreOptions options, Deadline deadline);

  void set(std::string_view key, std::string_view value) override;
  std::optional<std::string> get(std::string_view key) override;
  std::optional<std::string> wait(std::string_view key, Deadline deadline) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  std::string set_once(std::string_view key, std::string_view value) override;

 private:
  net::Connection connect(Deadline deadline) const;
  // Sends the request and returns the answer's value.
  std::optional<std::string> ask(const std::string& request, Deadline deadline);

  const TcpStoreOptions options_;
  std::mutex mutex_;  // guards idle_
  std::vector<net::Connection> idle_;
};

}  // namespace kith::comm
