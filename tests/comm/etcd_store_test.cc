// The store in an etcd cluster, on real etcd processes: what all stores have in common is in store_test.cc.

#include "kith/comm/etcd_store.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "kith/base/error.h"
#include "kith/base/rng.h"
#include "kith/comm/etcd/base64.h"
#include "kith/comm/etcd/call.h"
#include "tests/support/etcd.h"
#include "tests/support/failure.h"
#include "tests/support/worlds.h"

namespace kith::comm {
namespace {

using namespace std::chrono_literals;
using support::failure_of;
using support::in;
using support::in_time;
using testing::AllOf;
using testing::HasSubstr;

TEST(EtcdBase64, IsWhatTheStandardSays) {
  const std::vector<std::pair<std::string, std::string>> known{
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xfe", "//4="}};
  for (const auto& [bytes, text] : known) {
    EXPECT_EQ(etcd::to_base64(bytes), text);
    EXPECT_EQ(etcd::from_base64(text), bytes);
  }
  for (const char* bad : {"Z", "Zg=", "Z!==", "Zg==Zg=="})
    EXPECT_EQ(etcd::from_base64(bad), std::nullopt) << bad;
}

// A server that answers with these bytes, whatever it is asked, and closes.
std::string answer_to(const std::string& bytes, int pieces) {
  net::Listener listener(net::ListenOptions{{"127.0.0.1", 0}});
  std::thread server([&] {
    net::wait_ready(listener.fd(), POLLIN, in_time());
    auto connection = listener.accept();
    const std::size_t step = bytes.size() / static_cast<std::size_t>(pieces) + 1;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      ::send(connection->fd(), bytes.data() + at, std::min(step, bytes.size() - at), MSG_NOSIGNAL);
      std::this_thread::sleep_for(2ms);
    }
    ::shutdown(connection->fd(), SHUT_WR);
    net::wait_ready(connection->fd(), POLLHUP, in_time());  // until the caller has closed it
  });
  std::string result;
  try {
    etcd::Call call(listener.bound(), {}, "/v3/kv/range", "{}", in_time());
    result = cat(call.status(in_time()), " ", call.body(in_time()));
  } catch (const Error& error) {
    result = error.what();
  }
  server.join();
  return result;
}

TEST(EtcdCall, ReadsAnAnswerInAnyPieces) {
  for (const int pieces : {1, 3, 1000}) {
    EXPECT_EQ(answer_to("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", pieces), "200 hello");
    EXPECT_EQ(
        answer_to("HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
                  pieces),
        "503 hello");
  }
}

TEST(EtcdCall, AnAnswerThatIsCutOrNoHttpIsAnError) {
  EXPECT_THAT(answer_to("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", 1), HasSubstr("in the middle"));
  EXPECT_THAT(answer_to("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel", 1),
              HasSubstr("in the middle"));
  EXPECT_THAT(answer_to("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 1),
              HasSubstr("chunk without a length"));
  EXPECT_THAT(answer_to("HTTP/1.1 200 OK\r\n\r\nhello", 1), HasSubstr("how long"));
  EXPECT_THAT(answer_to("SSH-2.0-OpenSSH_9.2\r\n\r\n", 1), HasSubstr("does not speak HTTP"));
  EXPECT_THAT(answer_to("", 1), HasSubstr("127.0.0.1:"));
}

TEST(EtcdOptions, WithoutAMemberTheCallEndsAndNamesThemAll) {
  const std::uint16_t port = support::free_port();
  const auto begin = SteadyClock().now();
  EXPECT_THAT(
      failure_of<Error>([&] {
        EtcdStore store({.endpoints = {{"127.0.0.1", port}, {"localhost", port}}, .run = "r"}, in(300ms));
      }),
      AllOf(HasSubstr(cat("etcd at 127.0.0.1:", port, ", localhost:", port)), HasSubstr("refused")));
  EXPECT_LT(SteadyClock().now() - begin, 5s);
}

class EtcdStores : public testing::TestWithParam<int> {
 protected:
  EtcdStores() : cluster_(GetParam()) {}
  std::unique_ptr<EtcdStore> open(std::string secret = "s", Clock::Duration patience = 30s) {
    return std::make_unique<EtcdStore>(EtcdStoreOptions{.endpoints = cluster_.endpoints(),
                                                        .run = "test",
                                                        .secret = std::move(secret),
                                                        .patience = patience,
                                                        .will_after = 2s},
                                       in_time());
  }
  // Everybody calls set_once and add all the time while the fault happens; all agree on every key, and every
  // add has counted once.
  template <class Fault>
  void work_through(Fault fault) {
    constexpr int kThreads = 3;
    std::vector<std::unique_ptr<EtcdStore>> stores;
    for (int i = 0; i < kThreads; ++i)
      stores.push_back(open());
    std::atomic<bool> over = false;
    std::vector<std::vector<std::string>> winners(kThreads);
    std::atomic<std::int64_t> added = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
          const auto at = static_cast<std::size_t>(i);
          for (int n = 0; !over; ++n) {
            winners[at].push_back(stores[at]->set_once(cat("views/", n), cat("of ", i)));
            stores[at]->add("count", 1);
            ++added;
          }
        });
      }
      std::this_thread::sleep_for(300ms);
      fault();
      const std::int64_t then = added;
      const Deadline limit = in_time();
      while (added < then + 20 && SteadyClock().now() < limit)
        std::this_thread::sleep_for(10ms);
      EXPECT_GE(added, then + 20) << "nobody goes on after the fault";
      over = true;
    }
    for (const std::vector<std::string>& own : winners)
      for (std::size_t n = 0; n < own.size(); ++n)
        EXPECT_EQ(own[n], stores[0]->get(cat("views/", n))) << n;
    EXPECT_EQ(stores[0]->get("count"), std::to_string(added));
  }

  const support::EtcdCluster cluster_;
};

class OneEtcd : public EtcdStores {};
class ThreeEtcds : public EtcdStores {};
INSTANTIATE_TEST_SUITE_P(Members, OneEtcd,
                         testing::ValuesIn(std::vector<int>(support::has_etcd() ? 1 : 0, 1)));
INSTANTIATE_TEST_SUITE_P(Members, ThreeEtcds,
                         testing::ValuesIn(std::vector<int>(support::has_etcd() ? 1 : 0, 3)));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OneEtcd);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ThreeEtcds);

TEST_P(OneEtcd, AValueOfAnotherSecretIsRefusedAndSaidSo) {
  const auto honest = open(), other = open("another");
  other->set("k", "forged");
  EXPECT_THAT(failure_of<Error>([&] { honest->get("k"); }), HasSubstr("its MAC is wrong"));
  EXPECT_THAT(failure_of<Error>([&] { honest->wait("k", in_time()); }), HasSubstr("its MAC is wrong"));
  EXPECT_THAT(failure_of<Error>([&] { honest->set_once("k", "v"); }), HasSubstr("its MAC is wrong"));
  honest->set("k", "v");
  EXPECT_EQ(honest->get("k"), "v");
}

TEST_P(OneEtcd, AStoreThatIsStoppedIsWaitedForAndAStopEndsTheWait) {
  const auto store = open(), hasty = open("s", 300ms);
  cluster_.send(0, SIGSTOP);
  std::jthread watcher([&](const std::stop_token& stop) {
    EXPECT_EQ(store->wait("never", Deadline::max(), stop), std::nullopt);
  });
  std::jthread asker(
      [&](const std::stop_token& stop) { EXPECT_THROW(store->set_once("k", "v", stop), Error); });
  std::thread setter([&] { store->set("l", "set"); });
  std::this_thread::sleep_for(100ms);
  const Clock::Time asked = SteadyClock().now();
  watcher = {};
  asker = {};
  EXPECT_LT(SteadyClock().now() - asked, 1s);
  cluster_.send(0, SIGCONT);
  setter.join();
  EXPECT_EQ(store->get("l"), "set");
  cluster_.send(0, SIGKILL);
  EXPECT_THAT(failure_of<Error>([&] { hasty->get("l"); }), HasSubstr("lost: no member has answered"));
}

TEST_P(OneEtcd, WillsComeTrueHoweverTheStoreEnds) {
  const auto watching = open();
  auto orderly = open(), withdrawn = open();
  orderly->leave_will("ended", "1");
  withdrawn->leave_will("ended", "2");
  withdrawn->leave_will("ended", "3");
  withdrawn->withdraw_will();
  withdrawn.reset();
  EXPECT_EQ(watching->wait("ended/1", in(100ms)), std::nullopt);
  std::thread leaver([&] { orderly.reset(); });
  EXPECT_EQ(watching->wait("ended/1", in_time()), "1");
  leaver.join();
  EXPECT_EQ(watching->wait("ended/2", in(100ms)), std::nullopt);
  // One that is killed, or cannot be told from one: its heart has stopped.
  const pid_t child = ::fork();
  if (child == 0) {
    const auto own = open();
    own->leave_will("ended", "4");
    own->set("here", "yes");
    ::raise(SIGKILL);
  }
  EXPECT_EQ(watching->wait("here", in_time()), "yes");
  EXPECT_EQ(watching->wait("ended/2", in_time()), "4");
  ::waitpid(child, nullptr, 0);
}

TEST_P(ThreeEtcds, OneThatIsKilledIsNotMissed) {
  work_through([&] { cluster_.send(0, SIGKILL); });
}

// Whoever leads is stopped: the others choose a new leader while everybody decides.
TEST_P(ThreeEtcds, ALeaderChangeIsWaitedOut) {
  open()->set("k", "v");
  // -1: there is none at the moment. Error: a member has not begun to listen.
  const auto leads = [&] {
    for (int member = 0; member < 3; ++member) {
      const net::Address& at = cluster_.endpoints()[static_cast<std::size_t>(member)];
      etcd::Call call(at, {}, "/v3/maintenance/status", "{}", in_time());
      const std::string status = call.body(in_time());
      const auto id = status.find("\"member_id\":\"") + 13, of = status.find("\"leader\":\"") + 10;
      if (status.substr(id, status.find('"', id) - id) == status.substr(of, status.find('"', of) - of))
        return member;
    }
    return -1;
  };
  int first = -1;
  for (const Deadline limit = in_time(); first < 0 && SteadyClock().now() < limit;) {
    if (failure_of<Error>([&] { first = leads(); }).empty() && first >= 0) break;
    std::this_thread::sleep_for(10ms);
  }
  ASSERT_GE(first, 0);
  work_through([&] { cluster_.send(first, SIGSTOP); });
  cluster_.send(first, SIGCONT);
}

}  // namespace
}  // namespace kith::comm
