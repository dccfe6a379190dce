#pragma once

#include <string>
#include <string_view>

#include "kith/base/clock.h"
#include "kith/comm/net/connection.h"

namespace kith::comm::net {

// Who connected, and who accepted.
enum class Side { client, server };

// Note [Handshake]
// Both ends of a fresh connection prove that they know the run's secret; neither sends it.
//   client -> server   hello: magic, protocol, whether there is a secret, 32 random bytes
//   server -> client   hello
//   client -> server   HMAC-SHA-256(secret, "client" + both hellos)
//   server -> client   HMAC-SHA-256(secret, "server" + both hellos), or a refusal with its reason
// The client proves itself first, so a stranger learns nothing from the server. The labels differ, so a proof
// cannot be sent back to whom it came from; the random bytes make every proof good for one connection. A run
// without a secret takes the same four messages under the empty key, so that "only one of us has a secret" is
// found and said. What follows on the connection is neither encrypted nor signed.

// One side of it without the connection, for servers that must not wait. One thread at a time.
class Handshake {
 public:
  enum class State { going, done, refused };

  Handshake(Side side, std::string secret);

  // What a client sends first. REQUIRES: side is client.
  const std::string& opening() const { return own_hello_; }
  // Takes the peer's next message and returns the answer to send; empty: none.
  std::string take(std::string_view message);
  State state() const { return state_; }
  // The peer has said something.
  bool begun() const { return !peer_hello_.empty(); }
  // Why it was refused.
  const std::string& reason() const { return reason_; }

  // No message of it is longer than this.
  static constexpr std::size_t kMostBytes = 512;

 private:
  std::string refuse(std::string reason, std::string answer = {});
  // Empty when the two fit together.
  std::string mismatch(std::string_view hello) const;
  std::string proof_of(Side side) const;
  std::string take_hello(std::string_view message);
  std::string take_client_proof(std::string_view message);
  std::string take_verdict(std::string_view message);

  const Side side_;
  const std::string secret_;
  const std::string own_hello_;
  std::string peer_hello_;
  State state_ = State::going;
  std::string reason_;
};

// Runs the handshake on a fresh connection. InputError with the peer and the reason when either side refuses;
// Error when the limit is reached or the peer closes. The connection is of no use afterwards then.
void authenticate(Connection& connection, const std::string& secret, Side side, const Limit& limit);

// Connects and runs the handshake; again when the connection is closed in the middle of it, as a server does
// that has more strangers than it can hear out. Fails as connect and authenticate do.
Connection connect_proven(const ConnectOptions& options, const std::string& secret, const Limit& limit);

}  // namespace kith::comm::net
