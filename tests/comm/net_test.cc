#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "kith/base/error.h"
#include "kith/comm/net/connection.h"
#include "kith/comm/net/handshake.h"
#include "tests/support/failure.h"
#include "tests/support/free_port.h"
#include "tests/support/worlds.h"

namespace kith::comm::net {
namespace {

using namespace std::chrono_literals;
using support::failure_of;
using support::in;
using support::in_time;
using testing::AllOf;
using testing::HasSubstr;

ListenOptions any_port() {
  ListenOptions options;
  options.at.host = "127.0.0.1";
  return options;
}

struct Pair {
  Pair() : listener(any_port()), client(connect({.to = listener.bound()}, in_time())), server(take()) {}
  Connection take() {
    wait_ready(listener.fd(), POLLIN, in_time());
    return std::move(*listener.accept());
  }
  Listener listener;
  Connection client;
  Connection server;
};

TEST(Address, IsHostAndPort) {
  EXPECT_EQ(parse_address("node1:29501", "x"), (Address{"node1", 29501}));
  EXPECT_EQ(parse_address("[fd00::2]:80", "x"), (Address{"fd00::2", 80}));
  EXPECT_EQ(text_of({"fd00::2", 80}), "[fd00::2]:80");
  for (const char* bad : {"", "node1", ":80", "node1:", "node1:0", "node1:65536", "node1:8o", "fd00::2:80"}) {
    EXPECT_THAT(failure_of<InputError>([&] { parse_address(bad, "--store"); }),
                AllOf(HasSubstr("--store"), HasSubstr(bad)));
  }
}

TEST(Address, OfAnInterface) {
  EXPECT_EQ(address_of_interface("lo", 7).readable(), (Address{"127.0.0.1", 7}));
  EXPECT_THAT(failure_of<InputError>([] { address_of_interface("eth77", 0); }),
              AllOf(HasSubstr("'eth77'"), HasSubstr("lo")));
}

TEST(Listener, BindsToTheNamedInterface) {
  ListenOptions options = any_port();
  options.at.host = "kith.invalid";
  options.interface = "lo";
  const Listener listener(options);
  EXPECT_EQ(listener.bound().host, "127.0.0.1");
}

TEST(Listener, NamesThePortInUse) {
  const Listener first(any_port());
  const std::string problem = failure_of<Error>([&] { Listener second(ListenOptions{first.bound()}); });
  EXPECT_THAT(problem, AllOf(HasSubstr(std::to_string(first.bound().port)), HasSubstr("in use")));
}

TEST(Connect, WaitsForAListenerAndNamesItWhenNoneComes) {
  const Address free{"127.0.0.1", support::free_port()};
  EXPECT_THAT(failure_of<Error>([&] { connect({.to = free}, in(50ms)); }),
              AllOf(HasSubstr(text_of(free)), HasSubstr("refused")));
  std::optional<Listener> late;
  std::thread opener([&] {
    std::this_thread::sleep_for(60ms);
    late.emplace(ListenOptions{free});
  });
  EXPECT_NO_THROW(connect({.to = free}, in_time()));
  opener.join();
}

TEST(Connection, CarriesMessagesOfAnySize) {
  Pair pair;
  const std::string large(3'000'000, 'x');
  std::thread sender([&] {
    for (const std::string& message : {std::string(), std::string("a\0b", 3), large})
      pair.client.send(message, in_time());
  });
  EXPECT_EQ(pair.server.await(in_time()), "");
  EXPECT_EQ(pair.server.await(in_time()), std::string("a\0b", 3));
  EXPECT_EQ(pair.server.await(in_time()), large);
  sender.join();
}

TEST(Connection, RefusesWhatIsAboveTheLimitBeforeReadingIt) {
  Pair pair;
  pair.server.limit(100);
  pair.client.send(std::string(100, 'x'), in_time());
  EXPECT_EQ(pair.server.await(in_time()).size(), 100u);
  pair.client.send(std::string(101, 'x'), in_time());
  EXPECT_THAT(failure_of<Error>([&] { pair.server.await(in_time()); }), HasSubstr("101 bytes"));
}

TEST(Connection, EveryWaitIsBounded) {
  Pair pair;
  EXPECT_THAT(failure_of<Error>([&] { pair.server.await(in(20ms)); }), HasSubstr("in time"));
  const std::string more_than_the_kernel_keeps(std::size_t{32} << 20, 'x');
  EXPECT_THAT(failure_of<Error>([&] { pair.client.send(more_than_the_kernel_keeps, in(50ms)); }),
              AllOf(HasSubstr("in time"), HasSubstr(pair.client.peer())));
}

TEST(Connection, AClosedPeerIsNamedAfterItsLastMessage) {
  Pair pair;
  pair.client.queue("last");
  const std::string peer = pair.server.peer();
  { const Connection closed = std::move(pair.client); }
  EXPECT_EQ(pair.server.await(in_time()), "last");
  EXPECT_THAT(failure_of<Error>([&] { pair.server.await(in_time()); }),
              AllOf(HasSubstr(peer), HasSubstr("closed")));
}

struct Endings {
  std::string client;
  std::string server;
};

// Both sides' refusals; empty when they trust each other.
Endings meet(const std::string& client_secret, const std::string& server_secret) {
  Pair pair;
  Endings endings;
  std::thread server([&] {
    endings.server =
        failure_of<Error>([&] { authenticate(pair.server, server_secret, Side::server, in_time()); });
    const Connection closed = std::move(pair.server);
  });
  endings.client =
      failure_of<Error>([&] { authenticate(pair.client, client_secret, Side::client, in_time()); });
  server.join();
  return endings;
}

TEST(Authenticate, TrustsWhoKnowsTheSecret) {
  for (const char* secret : {"", "correct horse"}) {
    const Endings endings = meet(secret, secret);
    EXPECT_EQ(endings.client, "");
    EXPECT_EQ(endings.server, "");
  }
}

TEST(Authenticate, RefusesAnotherSecretOnBothSides) {
  const Endings endings = meet("correct horse", "battery staple");
  EXPECT_THAT(endings.client, HasSubstr("secret differs"));
  EXPECT_THAT(endings.server, AllOf(HasSubstr("127.0.0.1:"), HasSubstr("secret differs")));
}

TEST(Authenticate, SaysThatOnlyOneSideHasASecret) {
  const Endings only_client = meet("s", "");
  EXPECT_THAT(only_client.client, HasSubstr("it has no run secret, this side has one"));
  EXPECT_THAT(only_client.server, HasSubstr("it has a run secret, this side has none"));
  const Endings only_server = meet("", "s");
  EXPECT_THAT(only_server.client, HasSubstr("it has a run secret, this side has none"));
  EXPECT_THAT(only_server.server, HasSubstr("it has no run secret, this side has one"));
}

TEST(Handshake, AProofIsGoodForOneConnection) {
  Handshake client(Side::client, "s"), server(Side::server, "s"), another(Side::server, "s");
  const std::string proof = client.take(server.take(client.opening()));
  another.take(client.opening());
  EXPECT_EQ(another.take(proof)[0], 'n');
  EXPECT_EQ(another.state(), Handshake::State::refused);
  EXPECT_EQ(client.take(server.take(proof)), "");
  EXPECT_EQ(client.state(), Handshake::State::done);
  EXPECT_EQ(server.state(), Handshake::State::done);
}

// Who only sends back what it hears proves nothing, on either side.
TEST(Handshake, AMirrorIsRefused) {
  Handshake client(Side::client, "s");
  const std::string proof = client.take(client.opening());
  client.take("y" + proof);
  EXPECT_EQ(client.state(), Handshake::State::refused);
  Handshake server(Side::server, "s");
  const std::string hello = server.take(Handshake(Side::client, "s").opening());
  server.take(hello);
  EXPECT_EQ(server.state(), Handshake::State::refused);
}

TEST(Handshake, MalformedMessagesAreRefused) {
  Handshake good(Side::client, "s");
  std::string other_protocol = good.opening();
  other_protocol[8] = 9;
  for (const std::string& hello : {std::string(), std::string("GET / HTTP/1.1"), std::string("kith/net"),
                                   good.opening().substr(0, 20), good.opening() + "x", other_protocol}) {
    Handshake server(Side::server, "s");
    server.take(hello);
    EXPECT_EQ(server.state(), Handshake::State::refused) << hello;
    EXPECT_NE(server.reason(), "");
  }
  for (const std::string& proof :
       {std::string(), std::string("short"), std::string(32, 'x'), std::string(400, 'x')}) {
    Handshake server(Side::server, "s");
    server.take(good.opening());
    server.take(proof);
    EXPECT_EQ(server.state(), Handshake::State::refused);
  }
}

}  // namespace
}  // namespace kith::comm::net
