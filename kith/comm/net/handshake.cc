#include "kith/comm/net/handshake.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/sha256.h"
#include "kith/base/text.h"

namespace kith::comm::net {
namespace {

constexpr std::string_view kMagic = "kith/net";
constexpr char kProtocol = 1;
constexpr std::size_t kNonce = 32;
constexpr std::size_t kProtocolAt = kMagic.size();
constexpr std::size_t kSecretAt = kProtocolAt + 1;
constexpr std::size_t kHello = kSecretAt + 1 + kNonce;
constexpr char kAccepted = 'y';
constexpr char kRefused = 'n';

std::string make_hello(bool has_secret) {
  std::string hello(kMagic);
  hello += kProtocol;
  hello += static_cast<char>(has_secret);
  return hello + random_bytes(kNonce);
}

// What a peer wrote goes into a log: printable, and short.
std::string printable(std::string_view text) {
  std::string clean;
  for (const char c : text.substr(0, 200))
    clean += c >= ' ' && c <= '~' ? c : '?';
  return clean;
}

}  // namespace

Handshake::Handshake(Side side, std::string secret)
    : side_(side), secret_(std::move(secret)), own_hello_(make_hello(!secret_.empty())) {}

std::string Handshake::refuse(std::string reason, std::string answer) {
  state_ = State::refused;
  reason_ = std::move(reason);
  return answer;
}

std::string Handshake::mismatch(std::string_view hello) const {
  if (hello.size() < kSecretAt || !hello.starts_with(kMagic)) return "it does not speak kith's protocol";
  if (hello[kProtocolAt] != kProtocol) {
    return cat("it speaks version ", int{static_cast<unsigned char>(hello[kProtocolAt])},
               " of the protocol, this side version ", int{kProtocol});
  }
  if (hello.size() != kHello) return "its hello is malformed";
  const bool has_secret = hello[kSecretAt] != 0;
  if (has_secret && secret_.empty()) return "it has a run secret, this side has none";
  if (!has_secret && !secret_.empty()) return "it has no run secret, this side has one";
  return {};
}

std::string Handshake::proof_of(Side side) const {
  const bool client = side_ == Side::client;
  return hmac_sha256(secret_, cat(side == Side::client ? "client" : "server",
                                  client ? own_hello_ : peer_hello_, client ? peer_hello_ : own_hello_));
}

std::string Handshake::take_hello(std::string_view message) {
  peer_hello_ = message;
  const std::string wrong = mismatch(message);
  if (side_ == Side::client) return wrong.empty() ? proof_of(Side::client) : refuse(wrong);
  if (wrong.empty()) return own_hello_;
  // The server's hello lets a worker of another setup see what differs; strangers get nothing.
  return refuse(wrong, message.starts_with(kMagic) ? own_hello_ : std::string());
}

std::string Handshake::take_client_proof(std::string_view message) {
  if (!equal_in_constant_time(message, proof_of(Side::client)))
    return refuse("its run secret differs", cat(kRefused, "the run secret differs"));
  state_ = State::done;
  return cat(kAccepted, proof_of(Side::server));
}

std::string Handshake::take_verdict(std::string_view message) {
  if (message.starts_with(kRefused)) return refuse(cat("it refuses: ", printable(message.substr(1))));
  if (!message.starts_with(kAccepted) || !equal_in_constant_time(message.substr(1), proof_of(Side::server))) {
    return refuse("it cannot prove that it knows the run secret");
  }
  state_ = State::done;
  return {};
}

std::string Handshake::take(std::string_view message) {
  if (peer_hello_.empty()) return message.empty() ? refuse("its hello is empty") : take_hello(message);
  return side_ == Side::client ? take_verdict(message) : take_client_proof(message);
}

void authenticate(Connection& connection, const std::string& secret, Side side, const Limit& limit) {
  Handshake handshake(side, secret);
  connection.limit(Handshake::kMostBytes);
  if (side == Side::client) connection.send(handshake.opening(), limit);
  while (handshake.state() == Handshake::State::going) {
    const std::string answer = handshake.take(connection.await(limit));
    if (!answer.empty()) connection.send(answer, limit);
  }
  if (handshake.state() == Handshake::State::refused) {
    throw InputError(handshake.reason(), connection.peer(),
                     "all workers of a run need the same kith and the same run secret");
  }
  connection.limit(std::size_t{64} << 20);
}

Connection connect_proven(const ConnectOptions& options, const std::string& secret, const Limit& limit) {
  constexpr auto kFirstPause = std::chrono::milliseconds(10);
  constexpr auto kLongestPause = std::chrono::milliseconds(500);
  for (Clock::Duration pause = kFirstPause;; pause = std::min<Clock::Duration>(2 * pause, kLongestPause)) {
    Connection connection = connect(options, limit);
    try {
      authenticate(connection, secret, Side::client, limit);
      return connection;
    } catch (const InputError&) {
      throw;
    } catch (const Error&) {
      if (!connection.ended() || SteadyClock().now() >= limit.deadline) throw;
    }
    wait_ready(-1, 0, {std::min(limit.deadline, SteadyClock().now() + pause), limit.stop});
  }
}

}  // namespace kith::comm::net
