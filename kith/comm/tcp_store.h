#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "kith/base/log.h"
#include "kith/comm/net/connection.h"
#include "kith/comm/will_store.h"

namespace kith::comm {

struct TcpStoreOptions {
  net::Address server;
  std::string secret = {};     // of the run; empty: none
  std::string interface = {};  // to connect from; empty: the kernel's choice
  // For an answer that need not wait for anybody. Long, for a server that is stopped or has no processor is
  // not lost: its end is seen at once, and a machine or link that vanishes within kSilence.
  Clock::Duration patience = std::chrono::minutes(10);
  std::string remedy = "see how whoever serves it ended";  // what to do when it is lost
  Log* log = nullptr;                                      // may be null; outlives the store
};

// The client of a TcpStoreServer: for workers on several machines. Each call has a connection to itself, kept
// for later calls, so threads do not hold each other up. Error with the server's address when it is lost;
// every later call then fails at once.
class TcpStore final : public WillStore {
 public:
  // How long the server's machine may leave something unacknowledged, or say nothing when it is asked.
  static constexpr Clock::Duration kSilence = std::chrono::seconds(4);

  // Connects, waiting for the server to come up. InputError when either side refuses the other's secret or
  // protocol; Error when the deadline passes.
  TcpStore(TcpStoreOptions options, Deadline deadline);

  // Whose machine vanishes has ended, too. By one thread at a time.
  void leave_will(std::string_view list, std::string_view value) override;
  void withdraw_will() override;

 private:
  void set_for(std::string_view key, std::string_view value, std::stop_token stop) override;
  std::optional<std::string> get_for(std::string_view key, std::stop_token stop) override;
  std::int64_t add_for(std::string_view key, std::int64_t delta, std::stop_token stop) override;
  std::string set_once_for(std::string_view key, std::string_view value, std::stop_token stop) override;
  std::optional<std::string> wait_for(std::string_view key, Deadline deadline, std::stop_token stop) override;
  // Asks for an answer that need not wait for anybody.
  std::optional<std::string> ask_soon(const std::string& request, const std::stop_token& stop);
  enum class Attempt { first, later };
  net::Connection connect(Attempt attempt, const net::Limit& limit) const;
  net::Connection idle_or_new(const net::Limit& limit);
  void send_will(std::string_view key, std::string_view value, const net::Limit& limit);
  // Sends the request and returns the answer's value.
  std::optional<std::string> ask(const std::string& request, const net::Limit& limit);

  const TcpStoreOptions options_;
  std::mutex mutex_;  // guards what follows
  std::vector<net::Connection> idle_;
  std::string lost_;  // why; empty while it is not

  std::optional<net::Connection> will_;  // on which it was left; used by one thread
};

}  // namespace kith::comm
