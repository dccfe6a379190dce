#include "kith/comm/tcp_store.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "kith/base/error.h"
#include "kith/comm/file_store.h"
#include "kith/comm/net/handshake.h"
#include "kith/comm/net/strangers.h"
#include "kith/comm/tcp_store_server.h"
#include "tests/support/worlds.h"

namespace kith::comm {
namespace {

using namespace std::chrono_literals;
using support::in;
using support::in_time;
using testing::AllOf;
using testing::HasSubstr;

// Keeps the lines, and lets a test wait for one.
class Lines final : public Log {
 public:
  void write(LogLevel, std::string_view line) override {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(line);
    changed_.notify_all();
  }
  bool come(const std::string& part) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, in_time(), [&] {
      return std::ranges::any_of(lines_, [&](const std::string& l) { return l.find(part) != l.npos; });
    });
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return lines_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

class TcpStores : public testing::Test {
 protected:
  TcpStoreServer& serve(std::string secret = "s", Clock::Duration limit = 10s) {
    return server_.emplace(TcpStoreServerOptions{
        .listen = {{"127.0.0.1", 0}}, .secret = std::move(secret), .handshake_limit = limit, .log = &log_});
  }
  TcpStoreOptions options(std::string secret = "s") {
    return {.server = server_->bound(), .secret = std::move(secret)};
  }
  net::Connection stranger() { return net::connect({.to = server_->bound()}, in_time()); }
  net::Connection known() {
    net::Connection connection = stranger();
    net::authenticate(connection, "s", net::Side::client, in_time());
    return connection;
  }

  Lines log_;
  std::optional<TcpStoreServer> server_;
};

TEST_F(TcpStores, WhoDoesNotKnowTheSecretIsRefusedAndLogged) {
  serve();
  TcpStore good(options(), in_time());
  for (const char* secret : {"wrong", ""}) {
    try {
      TcpStore bad(options(secret), in_time());
      FAIL() << "joined with '" << secret << "'";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("secret"));
    }
  }
  EXPECT_TRUE(log_.come("refused 127.0.0.1:"));
  EXPECT_TRUE(log_.come("its run secret differs"));
  EXPECT_TRUE(log_.come("it has no run secret, this side has one"));
  good.set("k", "unaffected");
  EXPECT_EQ(good.get("k"), "unaffected");
}

TEST_F(TcpStores, StrangersOfAnyKindHoldUpNobody) {
  serve();
  net::Connection oversized = stranger();
  ::send(oversized.fd(), "\xff\xff\xff\x7f", 4, 0);
  net::Connection web = stranger();
  ::send(web.fd(), "GET / HTTP/1.1\r\n\r\n", 18, 0);
  net::Connection asks_at_once = stranger();
  asks_at_once.queue("g\1\0\0\0k");

  TcpStore good(options(), in_time());
  good.set("k", "v");
  EXPECT_EQ(good.get("k"), "v");
  for (net::Connection* connection : {&oversized, &web, &asks_at_once})
    EXPECT_THROW(connection->await(in_time()), Error) << "not closed";
  EXPECT_TRUE(log_.come("announces a message of"));
  EXPECT_TRUE(log_.come("does not speak kith's protocol"));
  EXPECT_EQ(good.get("k"), "v");
}

TEST_F(TcpStores, StrangersThatSayTooLittleHoldUpNobody) {
  serve("s", 200ms);
  net::Connection silent = stranger();
  net::Connection half = stranger();
  ::send(half.fd(), "\x2a\0\0\0kith", 8, MSG_NOSIGNAL);
  TcpStore good(options(), in_time());
  good.set("k", "v");
  EXPECT_EQ(good.get("k"), "v");
  for (net::Connection* connection : {&silent, &half})
    EXPECT_THROW(connection->await(in_time()), Error) << "not closed";
  EXPECT_TRUE(log_.come("did not prove itself in time"));
  EXPECT_EQ(good.get("k"), "v");
}

TEST_F(TcpStores, AFloodOfStrangersLeavesRoomAndDoesNotFloodTheLog) {
  serve();
  TcpStore good(options(), in_time());
  std::vector<net::Connection> flood;
  for (int i = 0; i < 200; ++i)
    flood.push_back(stranger());
  EXPECT_TRUE(log_.come("too many connections"));
  EXPECT_TRUE(log_.come("further refusals are not told"));
  flood.clear();
  TcpStore another(options(), in_time());
  another.set("k", "v");
  EXPECT_EQ(good.get("k"), "v");
  EXPECT_LE(log_.count(), 21u);
}

// Strangers in numbers, some silent, some with a good hello and no proof, while honest clients join and work.
TEST_F(TcpStores, AFloodOfStrangersKeepsNobodyOut) {
  serve();
  const std::string hello = net::Handshake(net::Side::client, "s").opening();
  constexpr int kEach = 1500;
  std::atomic<int> strangers = 0;
  std::vector<std::jthread> floods;
  for (const bool speaks : {false, true}) {
    floods.emplace_back([&, speaks] {
      std::vector<net::Connection> held;
      for (int i = 0; i < kEach; ++i, ++strangers) {
        held.push_back(stranger());
        if (speaks) held.back().queue(hello);
        if (held.size() == 200) held.erase(held.begin(), held.begin() + 100);
      }
    });
  }
  int joined = 0;
  for (; strangers < 2 * kEach; ++joined) {
    TcpStore honest(options(), in_time());
    honest.set("k", std::to_string(joined));
    EXPECT_EQ(honest.get("k"), std::to_string(joined));
  }
  EXPECT_GT(joined, 0);
  EXPECT_LE(log_.count(), 21u);
}

TEST(Strangers, OfTheHostThatHasMostTheSilentAndOldestGoes) {
  using net::Stranger;
  EXPECT_EQ(net::who_goes({Stranger{"10.0.0.1:1"}}), 0u);
  EXPECT_EQ(net::who_goes({{"10.0.0.1:1"}, {"10.0.0.2:1"}, {"10.0.0.2:2"}}), 1u);
  EXPECT_EQ(net::who_goes({{"10.0.0.1:1"}, {"10.0.0.2:1", true}, {"10.0.0.2:2"}, {"10.0.0.2:3"}}), 2u);
  EXPECT_EQ(net::who_goes({{"[::1]:1", true}, {"[::1]:2", true}}), 0u);
}

// As a server does that has more strangers than it can hear out.
TEST_F(TcpStores, AClientThatIsTurnedAwayInTheHandshakeComesAgain) {
  net::Listener listener(net::ListenOptions{{"127.0.0.1", 0}});
  std::thread server([&] {
    for (int times = 0; times < 3;) {
      net::wait_ready(listener.fd(), POLLIN, in_time());
      if (auto connection = listener.accept()) {
        ++times;
        if (times == 2) connection->await(in_time());
        if (times < 3) continue;
        net::authenticate(*connection, "s", net::Side::server, in_time());
        connection->await(in_time());
        connection->send("vvalue", in_time());
      }
    }
  });
  TcpStore store({.server = listener.bound(), .secret = "s"}, in_time());
  EXPECT_EQ(store.get("k"), "value");
  server.join();
}

TEST_F(TcpStores, DrainDoesNotWaitForStrangers) {
  serve("s", 30s);
  net::Connection silent = stranger();
  net::Connection half = stranger();
  half.queue(net::Handshake(net::Side::client, "s").opening());
  half.await(in_time());
  { const TcpStore good(options(), in_time()); }
  const Clock::Time asked = SteadyClock().now();
  EXPECT_TRUE(server_->drain(in_time()));
  EXPECT_LT(SteadyClock().now() - asked, 5s) << "the handshake's limit is 30 s";
}

TEST_F(TcpStores, SurvivesClientsThatDieInTheMiddle) {
  serve();
  TcpStore good(options(), in_time());
  {
    net::Connection waits = known();
    waits.queue("w\1\0\0\0k60000");
    net::Connection sends_half = known();
    ::send(sends_half.fd(), "\xff\0\0\0s", 5, 0);
    net::Connection takes_no_answer = known();
    good.set("large", std::string(20'000'000, 'x'));
    takes_no_answer.queue(std::string("g\5\0\0\0large", 10));
  }
  good.set("k", "v");
  EXPECT_EQ(good.get("k"), "v");
}

TEST_F(TcpStores, MalformedRequestsAreAnsweredWithAnError) {
  serve();
  net::Connection connection = known();
  for (const std::string& bad : {std::string(), std::string("s"), std::string("s\xff\0\0\0k", 6),
                                 std::string("z\1\0\0\0k", 6), std::string("a\1\0\0\0kten", 9)}) {
    connection.send(bad, in_time());
    EXPECT_EQ(connection.await(in_time()).at(0), 'e') << bad;
  }
  connection.send(std::string("s\1\0\0\0kv", 7), in_time());
  EXPECT_EQ(connection.await(in_time()), "v");
}

TEST_F(TcpStores, SixtyFourThreadsAtOnce) {
  serve();
  constexpr int kThreads = 64;
  TcpStore shared(options(), in_time());
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      std::optional<TcpStore> own;
      if (i % 2 == 0) own.emplace(options(), in_time());
      Store& store = own ? static_cast<Store&>(*own) : shared;
      store.set(cat("here/", i), std::to_string(i));
      const int next = (i + 1) % kThreads;
      EXPECT_EQ(store.wait(cat("here/", next), in_time()), std::to_string(next));
      if (store.add("count", 1) == kThreads) store.set("all", "yes");
      EXPECT_EQ(store.wait("all", in_time()), "yes");
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(shared.get("count"), "64");
}

TEST_F(TcpStores, WaitingCostsNoProcessorTime) {
  serve();
  TcpStore store(options(), in_time());
  const std::clock_t before = std::clock();
  EXPECT_EQ(store.wait("never", in(400ms)), std::nullopt);
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.1);
}

TEST_F(TcpStores, ALostServerIsNamed) {
  const std::string place = net::text_of(serve().bound());
  TcpStore store(options(), in_time());
  std::thread stopper([&] {
    std::this_thread::sleep_for(30ms);
    server_.reset();
  });
  try {
    store.wait("never", in_time());
    FAIL() << "the wait outlived the server";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(place), HasSubstr("whoever serves it")));
  }
  stopper.join();
}

TEST_F(TcpStores, AfterALossEveryCallFailsAtOnce) {
  serve();
  TcpStore store(options(), in_time());
  server_.reset();
  EXPECT_THROW(store.get("k"), Error);
  const Clock::Time asked = SteadyClock().now();
  EXPECT_THROW(store.set("k", "v"), Error);
  EXPECT_THROW(store.wait("k", in_time()), Error);
  EXPECT_LT(SteadyClock().now() - asked, 1s);
}

// A server whose process is stopped: its kernel still takes connections and requests.
TEST(StoppedServer, IsWaitedForAndAStopEndsTheWaitInEveryPhase) {
  const support::TempFolder folder;
  FileStore side(folder.path());
  support::Processes server(1, [&](int) {
    TcpStoreServer serving(TcpStoreServerOptions{.listen = {{"127.0.0.1", 0}}});
    FileStore(folder.path()).set("port", std::to_string(serving.bound().port));
    FileStore(folder.path()).wait("end", in_time());
    return std::string();
  });
  const auto port = static_cast<std::uint16_t>(std::stoi(side.wait("port", in_time()).value()));
  TcpStore store({.server = {"127.0.0.1", port}}, in_time());
  server.send(0, SIGSTOP);
  siginfo_t stopped{};  // all its threads stand still
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(server.pid(0)), &stopped, WSTOPPED | WNOWAIT), 0);
  // The first watch has the idle connection and waits for an answer, the others are in the handshake.
  std::vector<std::jthread> watchers;
  for (int i = 0; i < 3; ++i) {
    watchers.emplace_back([&](const std::stop_token& stop) {
      EXPECT_EQ(store.wait("never", Deadline::max(), stop), std::nullopt);
    });
  }
  watchers.emplace_back([&](const std::stop_token& stop) { EXPECT_THROW(store.set("k", "v", stop), Error); });
  watchers.emplace_back([&](const std::stop_token& stop) { EXPECT_THROW(store.get("k", stop), Error); });
  watchers.emplace_back([&](const std::stop_token& stop) { EXPECT_THROW(store.add("n", 1, stop), Error); });
  watchers.emplace_back(
      [&](const std::stop_token& stop) { EXPECT_THROW(store.set_once("k", "v", stop), Error); });
  std::this_thread::sleep_for(50ms);  // most are where they are to be stopped; any place is right
  const Clock::Time asked = SteadyClock().now();
  watchers.clear();
  EXPECT_LT(SteadyClock().now() - asked, 1s);
  // A call whose own deadline passes while the server is stopped has its answer afterwards.
  std::thread asker([&] { EXPECT_EQ(store.wait("unset", in(1ms)), std::nullopt); });
  std::thread setter([&] { store.set("l", "set"); });
  std::this_thread::sleep_for(50ms);
  server.send(0, SIGCONT);
  asker.join();
  setter.join();
  EXPECT_EQ(store.get("l"), "set");
  side.set("end", "");
  server.join(30s);
}

TEST_F(TcpStores, DrainWaitsForEverybodyToLeave) {
  serve();
  auto first = std::make_unique<TcpStore>(options(), in_time());
  auto second = std::make_unique<TcpStore>(options(), in_time());
  EXPECT_FALSE(server_->drain(in(20ms)));
  std::thread leaver([&] {
    second->set("k", "still served");
    EXPECT_EQ(first->get("k"), "still served");
    first.reset();
    second.reset();
  });
  EXPECT_TRUE(server_->drain(in_time()));
  leaver.join();
  EXPECT_THROW(TcpStore({.server = server_->bound(), .secret = "s"}, in(20ms)), Error);
}

}  // namespace
}  // namespace kith::comm
