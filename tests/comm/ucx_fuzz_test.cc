// What peers on other machines may send: lifelines, UCX messages, and what they leave in the store. Adding a
// parser is one entry of `parsers`.
#include <cstring>

#include "kith/comm/net/handshake.h"
#include "kith/comm/routed/placement.h"
#include "kith/comm/ucx/exchange.h"
#include "kith/comm/ucx/lifeline_message.h"
#include "tests/support/fuzz.h"
#include "tests/support/worlds.h"

namespace kith::comm::ucx {
namespace {

using namespace std::chrono_literals;
using protocol::Head;
using support::Fuzz;
using support::in;
using support::in_time;
using support::kFuzzInputs;
using support::Parser;

constexpr std::uint64_t kSeed = 20261116;

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

const std::vector<std::string> kLifeline{
    encode(Greeting{{.worker = 1, .workers_digest = 7, .token = 9, .lanes = 2}, "an address"}),
    encode(WindowOpened{{}, 3, "window"}), encode(Beat{}), encode(Farewell{12}), encode(FarewellHeard{})};

Envelope words(Kind kind, std::uint64_t step) {
  return {.token = 5, .from = 1, .kind = kind, .window = 1, .word = protocol::to_word({0, step})};
}
DataHeader data(std::uint64_t step) {
  return {.envelope = words(Kind::data, step), .whole_bytes = 64, .part_bytes = 64};
}
const std::vector<std::string> kMessages{bytes_of(data(0)),
                                         bytes_of(data(1)),
                                         bytes_of(words(Kind::past, 1)),
                                         bytes_of(words(Kind::ask, 1)),
                                         bytes_of(words(Kind::missed, 2)),
                                         bytes_of(words(Kind::unnamed, 3)),
                                         bytes_of(words(Kind::greet, 0))};

void take_lifeline(const std::string& bytes) {
  const auto message = parse_lifeline(bytes);
  if (!message) return;
  EXPECT_EQ(encode(*message).substr(0, 1), bytes.substr(0, 1));
}

// A window as worker 0 shares it with worker 1, fed with messages in that one's name.
class SharedWindow final : private Post {
 public:
  explicit SharedWindow(WindowMode mode)
      : head_(Head::of({.name = "w", .bytes = 64, .slots = 2, .mode = mode}, 2)),
        words_(protocol::Control::size_of(head_) + protocol::kLine),
        payload_(protocol::payload_size(head_)),
        context_(WorkerId{0}, {WorkerId{0}, WorkerId{1}}, nullptr, 1h, {0, 1}),
        exchange_(context_, *this) {
    void* memory = words_.data();
    std::size_t room = words_.size();
    std::align(protocol::kLine, protocol::Control::size_of(head_), memory, room);
    const mapped::Block own{protocol::Control::create(static_cast<std::byte*>(memory), head_),
                            payload_.data(), nullptr, nullptr};
    window_ = std::make_shared<NetWindow>("w", 1, own);
    window_->sides.try_emplace(1, head_, 0, Staging{exchange_.pool()});
    exchange_.add(window_);
    exchange_.bind(window_, 1, 1);
  }

  void take(const std::string& bytes) {
    const auto message = parse_message(std::as_bytes(std::span(bytes)));
    if (!message) return;
    for (const std::size_t stripe : {std::size_t{0}, std::size_t{1}, payload_.size() / 2, payload_.size()}) {
      Delivery delivery(payload_.data(), stripe);
      exchange_.take(1, *message, delivery, [] {});
    }
    exchange_.freed(*window_, 1);
  }

 private:
  void tell(int, const Envelope&) override {}
  void send(int, const DataHeader&, std::span<const std::byte>, Done done) override { done(true); }
  bool has_room(int) const override { return true; }

  const Head head_;
  std::vector<std::byte> words_, payload_;
  mapped::Context context_;
  Exchange exchange_;
  std::shared_ptr<NetWindow> window_;
};

Parser window_parser(std::string name, WindowMode mode) {
  return {std::move(name), kMessages,
          [window = std::make_shared<SharedWindow>(mode)](const std::string& m) { window->take(m); }};
}

void take_presence(const std::string& text) {
  const routed::Presence presence = routed::parse_presence(text, "what worker 1 left");
  EXPECT_NE(presence.address.port, 0);
}

const std::vector<Parser> parsers{
    {"Lifeline", kLifeline, take_lifeline},
    window_parser("ScheduledWindow", WindowMode::scheduled),
    window_parser("LatestWindow", WindowMode::latest),
    {"Presence", {"boot 4:12 0\n10.0.0.7:41532", "m\n[fd00::2]:29501"}, take_presence},
};

class NetworkBytes : public testing::TestWithParam<Parser> {};
INSTANTIATE_TEST_SUITE_P(Any, NetworkBytes, testing::ValuesIn(parsers),
                         [](const auto& parameter) { return parameter.param.name; });

TEST_P(NetworkBytes, AreTakenOrRefused) {
  fuzz(GetParam(), kFuzzInputs, kSeed);
}

// Worker 0 of two, and this test in the place of worker 1.
class LivePeer : public testing::Test {
 protected:
  LivePeer() : listener_(net::ListenOptions{{"127.0.0.1", 0}}) {
    store_.set("net/1", cat("elsewhere\n", net::text_of(listener_.bound())));
    TransportOptions options = support::transport_options(0, 2, store_);
    options.network.interface = "lo";
    options.network.secret = "s";
    options.network.machine = "here";
    transport_ = make_transport("ucx", options);
    const routed::Presence own =
        routed::parse_presence(store_.wait("net/0", in_time()).value(), "what worker 0 left");
    address_ = own.address;
  }
  net::Connection proven() { return net::connect_proven({.to = address_}, "s", in_time()); }
  // Until worker 0 has closed it.
  static void await_end(net::Connection& connection) {
    const Deadline limit = in_time();
    while (!connection.ended() && SteadyClock().now() < limit) {
      net::wait_ready(connection.fd(), POLLIN, limit);
      while (connection.receive()) {
      }
    }
    EXPECT_TRUE(connection.ended());
  }

  MemoryStore store_;
  net::Listener listener_;
  std::unique_ptr<Transport> transport_;
  net::Address address_;
};

TEST_F(LivePeer, AnEmptyFrameIsRefusedAndNoMore) {
  net::Connection peer = proven();
  peer.send("", in_time());
  await_end(peer);
  EXPECT_FALSE(transport_->lost(WorkerId{1})) << "nobody has been that worker yet";
}

TEST_F(LivePeer, WhateverAStrangerSaysItGoesOn) {
  Fuzz first(kLifeline, kSeed);
  for (int i = 0; i < 300; ++i) {
    net::Connection peer = proven();
    std::string message = first.next();
    if (const auto words = parse_lifeline(message); words && std::holds_alternative<Greeting>(*words))
      message.clear();  // the next test's
    peer.send(message, in_time());
    await_end(peer);
  }
  EXPECT_FALSE(transport_->lost(WorkerId{1}));
}

// With a place among the workers, a peer that talks nonsense is lost, and that is all.
TEST_F(LivePeer, ThatTalksNonsenseIsLost) {
  net::Connection peer = proven();
  peer.send(encode(Greeting{{.worker = 1, .workers_digest = 1}, "no address"}), in_time());
  await_end(peer);
  EXPECT_THROW(transport_->open({.name = "w", .bytes = 8}, in_time()), Error);
  EXPECT_TRUE(transport_->lost(WorkerId{1}));
}

}  // namespace
}  // namespace kith::comm::ucx
