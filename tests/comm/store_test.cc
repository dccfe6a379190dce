#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <thread>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/comm/etcd_store.h"
#include "kith/comm/file_store.h"
#include "kith/comm/memory_store.h"
#include "kith/comm/tcp_store.h"
#include "kith/comm/tcp_store_server.h"
#include "tests/support/etcd.h"
#include "tests/support/worlds.h"

namespace kith::comm {
namespace {

using namespace std::chrono_literals;
using support::in;
using support::in_time;

class AnyStore : public ::testing::TestWithParam<std::string> {
 protected:
  // Another handle of the same store, as another worker has it.
  Store& another() {
    if (GetParam() == "memory") return memory_;
    if (GetParam() == "file") {
      handles_.push_back(std::make_unique<FileStore>(folder_.path()));
    } else if (GetParam() == "etcd") {
      static const support::EtcdCluster cluster(1);  // for all tests: each is a run of its own
      handles_.push_back(std::make_unique<EtcdStore>(
          EtcdStoreOptions{.endpoints = cluster.endpoints(), .run = folder_.path(), .secret = "s"},
          in_time()));
    } else {
      if (!server_)
        server_ = std::make_unique<TcpStoreServer>(TcpStoreServerOptions{.listen = {{"127.0.0.1", 0}}});
      handles_.push_back(std::make_unique<TcpStore>(TcpStoreOptions{.server = server_->bound()}, in_time()));
    }
    return *handles_.back();
  }

 private:
  support::TempFolder folder_;
  MemoryStore memory_;
  std::unique_ptr<TcpStoreServer> server_;
  std::vector<std::unique_ptr<Store>> handles_;
};
std::vector<std::string> stores_here() {
  std::vector<std::string> names{"memory", "file", "tcp"};
  if (support::has_etcd()) names.push_back("etcd");
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, AnyStore, ::testing::ValuesIn(stores_here()),
                         [](const auto& param) { return param.param; });

TEST_P(AnyStore, KeepsAnyKeyAndAnyValue) {
  Store& store = another();
  const std::string odd("zero\0byte\n", 10);
  const std::vector<std::string> keys{"a", "a/b", "a%2Fb", "..", ".lock", ".writing", "", "A", "Zürich", odd};
  for (const std::string& key : keys)
    EXPECT_EQ(store.get(key), std::nullopt) << key;
  for (const std::string& key : keys)
    store.set(key, key + odd);
  for (const std::string& key : keys)
    EXPECT_EQ(another().get(key), key + odd) << key;
  store.set("a", "");
  EXPECT_EQ(another().get("a"), "");
}

TEST_P(AnyStore, AStopEndsAWaitAtOnceAndNoOther) {
  Store& store = another();
  std::stop_source stop;
  std::atomic<bool> ended = false;
  std::thread watcher([&] {
    EXPECT_EQ(store.wait("never", Deadline::max(), stop.get_token()), std::nullopt);
    ended = true;
  });
  std::thread other([&] { EXPECT_EQ(store.wait("later", in_time()), "here"); });
  EXPECT_EQ(store.wait("never", in(20ms)), std::nullopt);
  EXPECT_FALSE(ended);
  const Clock::Time asked = SteadyClock().now();
  stop.request_stop();
  watcher.join();
  EXPECT_LT(SteadyClock().now() - asked, 1s);
  another().set("later", "here");
  other.join();
  // The store is as good as before, and a stop that came first leaves no time to wait.
  EXPECT_EQ(store.wait("never", in_time(), stop.get_token()), std::nullopt);
  EXPECT_EQ(store.get("later"), "here");
}

TEST_P(AnyStore, WaitEndsWithTheKeyOrAtTheDeadline) {
  Store& store = another();
  const auto start = SteadyClock().now();
  EXPECT_EQ(store.wait("k", in(20ms)), std::nullopt);
  EXPECT_GE(SteadyClock().now() - start, 20ms);
  Store& other = another();
  std::thread setter([&] { other.set("k", "v"); });
  EXPECT_EQ(store.wait("k", in_time()), "v");
  setter.join();
}

TEST_P(AnyStore, CountersAndFirstWritersAreAtomic) {
  constexpr int kThreads = 4, kEach = 50;
  std::vector<Store*> stores;
  for (int i = 0; i < kThreads; ++i)
    stores.push_back(&another());
  std::vector<std::string> winners(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      winners[i] = stores[i]->set_once("first", std::to_string(i));
      for (int n = 0; n < kEach; ++n)
        stores[i]->add("count", 1);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(stores[0]->add("count", -1), kThreads * kEach - 1);
  for (const std::string& winner : winners)
    EXPECT_EQ(winner, winners[0]);
  EXPECT_EQ(stores[0]->get("first"), winners[0]);
}

TEST_P(AnyStore, KeepsMegabytes) {
  const std::string large(GetParam() == "etcd" ? 1'000'000 : 5'000'000, '\xfe');  // etcd's own limit
  another().set("large", large);
  EXPECT_EQ(another().get("large"), large);
}

TEST_P(AnyStore, AWaitOfOneThreadDoesNotHoldUpAnother) {
  Store& store = another();
  std::thread waiter([&] { EXPECT_EQ(store.wait("later", in_time()), "came"); });
  store.set("now", "1");
  EXPECT_EQ(store.get("now"), "1");
  store.set("later", "came");
  waiter.join();
}

TEST_P(AnyStore, ACounterMustBeANumber) {
  Store& store = another();
  store.set("k", "12 apples");
  EXPECT_THROW(store.add("k", 1), Error);
}

TEST(FileStore, CountsAcrossProcesses) {
  const support::TempFolder folder;
  support::Processes processes(3, [&](int) {
    FileStore store(folder.path());
    for (int i = 0; i < 30; ++i)
      store.add("count", 1);
    return std::string();
  });
  for (const auto& ending : processes.join(30s))
    EXPECT_TRUE(ending.good()) << ending.report;
  EXPECT_EQ(FileStore(folder.path()).get("count"), "90");
}

TEST(FileStore, SaysWhichFolderItCannotUse) {
  try {
    FileStore store("/proc/kith");
    FAIL() << "created a folder in /proc";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("/proc/kith"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace kith::comm
