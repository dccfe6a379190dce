// What strangers and peers may send to the store, the handshake and any connection: every parser takes any
// bytes. Adding one is one entry of `parsers`.
#include "tests/support/fuzz.h"

#include <sys/socket.h>

#include "kith/comm/counter_text.h"
#include "kith/comm/net/handshake.h"
#include "kith/comm/tcp_store.h"
#include "kith/comm/tcp_store_message.h"
#include "kith/comm/tcp_store_server.h"
#include "tests/support/worlds.h"

namespace kith::comm {
namespace {

using namespace std::chrono_literals;
using net::Handshake;
using net::Side;
using support::Fuzz;
using support::in_time;
using support::kFuzzInputs;
using support::Parser;
using tcp_store::Operation;
using tcp_store::Request;
using tcp_store::Status;

constexpr std::uint64_t kSeed = 20261116;

const std::vector<std::string> kRequests{
    encode(Request{Operation::set, "key", "value"}), encode(Request{Operation::get, "key"}),
    encode(Request{.operation = Operation::wait, .key = "key", .number = 1}),
    encode(Request{.operation = Operation::add, .key = "count", .number = INT64_MAX}),
    encode(Request{Operation::set_once, "", "first"})};
const std::vector<std::string> kAnswers{encode(tcp_store::Answer{Status::value, "value"}),
                                        encode(tcp_store::Answer{Status::nothing}),
                                        encode(tcp_store::Answer{Status::error, "no"})};

std::string hello(Side side) {
  return Handshake(side, "s").opening();
}
std::string framed(const std::string& message) {
  std::string bytes;
  for (std::size_t i = 0; i < 4; ++i)
    bytes += static_cast<char>(message.size() >> (8 * i));
  return bytes + message;
}

// What a request means survives the way, and what is not one is refused.
void take_request(const std::string& message) {
  const auto request = tcp_store::parse_request(message);
  if (!request) return;
  EXPECT_EQ(tcp_store::parse_request(encode(*request)), request);
}

void take_answer(const std::string& message) {
  const auto answer = tcp_store::parse_answer(message);
  if (!answer) return;
  EXPECT_EQ(encode(*answer), message);
}

// As the first message, and as the second after a good hello.
void shake_hands(Side own, const std::string& message) {
  Handshake first(own, "s");
  first.take(message);
  EXPECT_NE(first.state(), Handshake::State::done);
  Handshake second(own, "s");
  second.take(hello(own == Side::server ? Side::client : Side::server));
  ASSERT_EQ(second.state(), Handshake::State::going);
  second.take(message);
  EXPECT_EQ(second.state(), Handshake::State::refused) << "nobody guesses a proof";
}

void receive_all(const std::string& bytes) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  net::Connection connection{shm::Descriptor(ends[0])};
  {
    const shm::Descriptor other(ends[1]);
    ASSERT_EQ(::send(other.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  connection.limit(Handshake::kMostBytes);
  std::size_t got = 0;
  while (const auto message = connection.receive())
    got += 4 + message->size();
  EXPECT_LE(got, bytes.size());
  EXPECT_TRUE(connection.ended());
}

const std::vector<Parser> parsers{
    {"StoreRequest", kRequests, take_request},
    {"StoreAnswer", kAnswers, take_answer},
    {"StoreCounter", {"0", "-17", "9223372036854775807"}, [](auto& m) { add_to_counter("key", m, 1); }},
    {"HandshakeOfServer",
     {hello(Side::client), std::string(32, 'p')},
     [](auto& m) { shake_hands(Side::server, m); }},
    {"HandshakeOfClient",
     {hello(Side::server), "y" + std::string(32, 'p'), "nno"},
     [](auto& m) { shake_hands(Side::client, m); }},
    {"Connection", {framed("hello"), framed("") + framed("again"), framed(kRequests[0])}, receive_all},
};

class Bytes : public testing::TestWithParam<Parser> {};
INSTANTIATE_TEST_SUITE_P(Any, Bytes, testing::ValuesIn(parsers),
                         [](const auto& parameter) { return parameter.param.name; });

TEST_P(Bytes, AreTakenOrRefused) {
  fuzz(GetParam(), kFuzzInputs, kSeed);
}

// The server itself, over real sockets: whatever proven and unproven peers send, it serves the others.
TEST(LiveServer, OutlivesWhateverIsSent) {
  TcpStoreServerOptions options;
  options.listen.at = {"127.0.0.1", 0};
  options.secret = "s";
  TcpStoreServer server(options);
  TcpStore honest({.server = server.bound(), .secret = "s"}, in_time());
  Fuzz strangers({framed(hello(Side::client)), framed(kRequests[0])}, kSeed);
  for (int i = 0; i < 300; ++i) {
    net::Connection stranger = net::connect({.to = server.bound()}, in_time());
    const std::string bytes = strangers.next();
    ::send(stranger.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  Fuzz peers(kRequests, kSeed);
  for (int i = 0; i < 20; ++i) {
    net::Connection peer = net::connect_proven({.to = server.bound()}, "s", in_time());
    for (int k = 0; k < 50; ++k) {
      peer.send(peers.next(), in_time());
      // A wait for a key that nobody sets is left alone by closing.
      if (!net::wait_ready(peer.fd(), POLLIN, support::in(20ms))) break;
      EXPECT_TRUE(tcp_store::parse_answer(peer.await(in_time())));
    }
  }
  honest.set("k", "v");
  EXPECT_EQ(honest.get("k"), "v");
}

// The client, of a server that answers anything.
TEST(LiveClient, OutlivesWhateverIsAnswered) {
  net::Listener listener(net::ListenOptions{{"127.0.0.1", 0}});
  std::jthread server([&](const std::stop_token& stop) {
    Fuzz answers(kAnswers, kSeed);
    const net::StopFile stopped(stop);
    while (net::wait_ready(listener.fd(), POLLIN, {in_time(), stopped.fd()})) {
      auto connection = listener.accept();
      if (!connection) continue;
      try {
        net::authenticate(*connection, "s", Side::server, {in_time(), stopped.fd()});
        for (;;) {
          connection->await({in_time(), stopped.fd()});
          connection->send(answers.next(), in_time());
        }
      } catch (const Error&) {
      }
    }
  });
  TcpStore store({.server = listener.bound(), .secret = "s"}, in_time());
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    try {
      store.get("k");
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace kith::comm
