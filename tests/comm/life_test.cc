#include "kith/comm/shm/life.h"

#include <future>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "kith/comm/losses.h"
#include "kith/comm/memory_store.h"
#include "kith/comm/registry.h"
#include "tests/support/worlds.h"

namespace kith::comm::shm {
namespace {

using namespace std::chrono_literals;

class Lives : public ::testing::TestWithParam<Life::Watching> {};
INSTANTIATE_TEST_SUITE_P(All, Lives,
                         ::testing::Values(Life::Watching::one_call, Life::Watching::thread_per_peer),
                         [](const auto& param) {
                           return param.param == Life::Watching::one_call ? "OneCall" : "ThreadPerPeer";
                         });

// More peers than one futex_waitv takes.
TEST_P(Lives, WatchMorePeersThanFitOneCall) {
  constexpr int kWorkers = 141;
  const auto ignore = [](int, bool) {};
  std::vector<std::unique_ptr<Life>> lives;
  for (int i = 0; i + 1 < kWorkers; ++i)
    lives.push_back(std::make_unique<Life>(kWorkers, ignore, GetParam()));
  std::promise<std::pair<int, bool>> told;
  auto first = told.get_future();
  bool once = false;  // touched by the life thread only
  Life watcher(
      kWorkers,
      [&](int worker, bool died) {
        if (!std::exchange(once, true)) told.set_value({worker, died});
      },
      GetParam());
  for (int i = 0; i + 1 < kWorkers; ++i) {
    watcher.watch(i, lives[static_cast<std::size_t>(i)]->descriptor(), kWorkers - 1, "test");
  }
  lives[137].reset();
  ASSERT_EQ(first.wait_for(10s), std::future_status::ready);
  const auto [worker, died] = first.get();
  EXPECT_EQ(worker, 137);
  EXPECT_FALSE(died) << "it ended in order";
}

// Whoever it watches, and whatever those do, it ends at once.
TEST_P(Lives, EndAtOnceWhileTheirPeersLive) {
  constexpr int kWorkers = 9;
  std::vector<std::unique_ptr<Life>> peers;
  for (int i = 0; i + 1 < kWorkers; ++i)
    peers.push_back(std::make_unique<Life>(
        kWorkers, [](int, bool) {}, GetParam()));
  for (int repetition = 0; repetition < 20; ++repetition) {
    auto watcher = std::make_unique<Life>(
        kWorkers, [](int, bool) {}, GetParam());
    for (int i = 0; i + 1 < kWorkers; ++i)
      watcher->watch(i, peers[static_cast<std::size_t>(i)]->descriptor(), kWorkers - 1, "test");
    const auto start = SteadyClock().now();
    watcher.reset();
    EXPECT_LT(SteadyClock().now() - start, 500ms);
  }
}

TEST(Life, SleepsOnAllWordsInOneCallWhereTheKernelCan) {
  EXPECT_EQ(Life::watching(true), Life::Watching::thread_per_peer);
  EXPECT_EQ(Life::obstacle(), "");
}

TEST(Life, RefusesWhatIsNoLifeSegment) {
  Life life(4, [](int, bool) {});
  const Segment small = Segment::create("small", 8, Sharing::read_only);
  EXPECT_THROW(life.watch(1, small.descriptor(), 0, "test"), InputError);
}

// A store may take a worker for dead that was stopped for a while. Whoever has met it knows better; of one
// that was not met the word is all there is.
TEST(Life, TheKernelsWordCountsAndNotTheStoresWhereAWorkerWasMet) {
  const std::vector<WorkerId> all{WorkerId{0}, WorkerId{1}, WorkerId{2}};
  MemoryStore store;
  const auto losses = std::make_shared<Losses>();
  const auto transport =
      make_transport("shm", {.self = all[0], .workers = all, .store = &store, .losses = losses});
  auto other = make_transport("shm", {.self = all[1], .workers = all, .store = &store});
  const auto open = [](Transport& own, WorkerId peer) {
    return own.open({.name = "w", .bytes = 8, .peers = {peer}}, support::in_time());
  };
  auto theirs = std::async(std::launch::async, [&] { return open(*other, all[0]); });
  const auto window = open(*transport, all[1]);
  theirs.get();

  losses->tell(all[1]);
  losses->tell(all[2]);
  EXPECT_FALSE(transport->lost(all[1])) << "it lives";
  EXPECT_TRUE(transport->lost(all[2]));
  other.reset();
  for (const Deadline limit = support::in_time(); !transport->lost(all[1]) && SteadyClock().now() < limit;)
    std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(transport->lost(all[1]));
}

}  // namespace
}  // namespace kith::comm::shm
