#include "kith/launch/vigil.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/text.h"
#include "kith/comm/file_store.h"
#include "kith/comm/file_will.h"
#include "kith/comm/tcp_store.h"
#include "kith/comm/tcp_store_server.h"
#include "tests/support/free_port.h"
#include "tests/support/worlds.h"

namespace kith::launch {
namespace {

using namespace std::chrono_literals;
using support::in_time;

class Vigils : public testing::TestWithParam<const char*> {
 protected:
  bool over_tcp() const { return GetParam() == std::string_view("tcp"); }
  std::unique_ptr<comm::WillStore> open() const {
    if (over_tcp())
      return std::make_unique<comm::TcpStore>(comm::TcpStoreOptions{.server = {"127.0.0.1", port_}},
                                              in_time());
    return std::make_unique<comm::FileStore>(folder_.path());
  }
  // The last process serves the store where it is not a folder, and ends with the key "end".
  std::string serve() const {
    std::unique_ptr<comm::TcpStoreServer> server;
    if (over_tcp())
      server = std::make_unique<comm::TcpStoreServer>(
          comm::TcpStoreServerOptions{.listen = {{"127.0.0.1", port_}}});
    open()->wait("end", in_time());
    return {};
  }

  const support::TempFolder folder_{};
  const std::uint16_t port_ = support::free_port();
};
INSTANTIATE_TEST_SUITE_P(Stores, Vigils, testing::Values("tcp", "folder"),
                         [](const auto& parameter) { return std::string(parameter.param); });

// Workers 1 to 3 keep vigil and are killed; worker 4 leaves in peace; who watches hears of each, and whether
// it was needed.
TEST_P(Vigils, EveryDeathIsHeardAndNoOrderlyEnd) {
  constexpr int kWorkers = 5;
  support::Processes processes(kWorkers + 1, [&](int index) -> std::string {
    if (index == kWorkers) return serve();
    if (index == 0) return "the test's own";
    const auto store = open();
    Vigil vigil(*store, WorkerId{index});
    if (index != 3) vigil.become_dispensable();
    if (index == 4) vigil.leave_in_peace();
    store->set(cat("here/", index), "");
    if (index < 4) store->wait("never", Deadline::max());
    return {};
  });
  const auto store = open();
  Vigil vigil(*store, WorkerId{0});
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> lost;
  const auto listening = vigil.losses()->listen([&](WorkerId worker) {
    const std::lock_guard lock(mutex);
    lost.push_back(worker.value);
    changed.notify_all();
  });
  const auto hears_of = [&](std::size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_until(lock, in_time(), [&] { return lost.size() >= count; });
  };
  for (int index = 1; index < kWorkers; ++index)
    ASSERT_TRUE(store->wait(cat("here/", index), in_time()));
  processes.send(1, SIGKILL);
  processes.send(2, SIGKILL);
  ASSERT_TRUE(hears_of(2));
  EXPECT_FALSE(vigil.losses()->any().stop_requested()) << "nobody needs them to join";
  EXPECT_EQ(vigil.ended(), std::nullopt);
  processes.send(3, SIGKILL);
  ASSERT_TRUE(hears_of(3));
  EXPECT_TRUE(vigil.losses()->any().stop_requested());
  EXPECT_EQ(vigil.ended(), WorkerId{3});
  EXPECT_THAT(lost, testing::UnorderedElementsAre(1, 2, 3));
  EXPECT_EQ(store->get("kith/ended/4"), std::nullopt) << "worker 4 left in peace";
  vigil.leave_in_peace();
  store->set("end", "");
  processes.join(30s);
}

// In a folder each watches over a few of the others, and hears of all: also where those who watch over
// somebody die with it.
TEST(Vigil, AmongManyEachWatchesAFew) {
  constexpr int kWorkers = 14, kKilled = 10;
  const support::TempFolder folder;
  support::Processes processes(kWorkers, [&](int index) -> std::string {
    if (index == 0) return "the test's own";
    comm::FileStore store(folder.path());
    Vigil vigil(store, WorkerId{index});
    store.set(cat("here/", index), "");
    store.wait("end", Deadline::max());
    vigil.leave_in_peace();
    return {};
  });
  comm::FileStore store(folder.path());
  Vigil vigil(store, WorkerId{0});
  for (int index = 1; index < kWorkers; ++index)
    ASSERT_TRUE(store.wait(cat("here/", index), in_time()));
  for (int index = 1; index <= kKilled; ++index)
    processes.send(index, SIGKILL);
  std::set<std::string> heard;
  for (int number = 1; number <= kKilled; ++number)
    heard.insert(store.wait(cat("kith/ended/", number), in_time()).value_or("nobody"));
  for (int index = 1; index <= kKilled; ++index)
    EXPECT_TRUE(heard.contains(std::to_string(index))) << index;
  std::size_t watched = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    watched += std::filesystem::read_symlink(file, none).string().find("pidfd") != std::string::npos ? 1 : 0;
  }
  EXPECT_LE(watched, 2 * comm::WillWatch::kWatched) << "by the vigil and by the waits of this test";
  vigil.leave_in_peace();
  store.set("end", "");
  processes.join(30s);
}

}  // namespace
}  // namespace kith::launch
