#include "kith/comm/tcp_store.h"

#include <algorithm>
#include <ctime>
#include <mutex>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/comm/net/handshake.h"
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
  serve("s", 200ms);
  net::Connection silent = stranger();
  net::Connection half = stranger();
  ::send(half.fd(), "\x2a\0\0\0kith", 8, 0);
  net::Connection oversized = stranger();
  ::send(oversized.fd(), "\xff\xff\xff\x7f", 4, 0);
  net::Connection web = stranger();
  ::send(web.fd(), "GET / HTTP/1.1\r\n\r\n", 18, 0);
  net::Connection asks_at_once = stranger();
  asks_at_once.queue("g\1\0\0\0k");

  TcpStore good(options(), in_time());
  good.set("k", "v");
  EXPECT_EQ(good.get("k"), "v");
  for (net::Connection* connection : {&silent, &half, &oversized, &web, &asks_at_once})
    EXPECT_THROW(connection->await(in_time()), Error) << "not closed";
  EXPECT_TRUE(log_.come("did not prove itself in time"));
  EXPECT_TRUE(log_.come("announces a message of"));
  EXPECT_TRUE(log_.come("does not speak kith's protocol"));
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
    EXPECT_THAT(error.what(), AllOf(HasSubstr(place), HasSubstr("worker 0")));
  }
  stopper.join();
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
