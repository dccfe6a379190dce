// The rules of windows, as tests/comm has them for every backend, for the transport of replayed runs, in many
// interleavings.
#include "tests/comm/conformance.h"

#include <memory>

#include "tests/replay/scheduler.h"
#include "tests/replay/world.h"
#include "tests/support/processes.h"

namespace kith::replay {
namespace {

using namespace comm::conformance;
using comm::Late;
using comm::Lost;
using comm::Outcome;
using support::WorkerBody;

constexpr std::uint64_t kSeeds = 5;
constexpr std::size_t kBytes = 4096;

// Runs the body once per worker under several seeds. Failures of any worker are failures of the test.
void run_replayed(int workers, const WorkerBody& body) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    support::Processes process(1, [&](int) {
      const auto world = World::create({.workers = workers, .slow = true});
      auto* const scheduler = new Scheduler({.seed = seed, .faults = {}});  // the network's thread stays
      comm::MemoryStore store;
      std::vector<std::function<void()>> bodies;
      for (int rank = 0; rank < workers; ++rank) {
        bodies.emplace_back([&, rank] {
          const auto transport = world->join(rank, nullptr);
          Worker worker{rank, workers, *transport, store};
          try {
            body(worker);
          } catch (const support::Departure&) {
          }
        });
      }
      scheduler->run(bodies, [&] { world->carry_news(); });
      return scheduler->failure();
    });
    const support::Ending ending = process.join(std::chrono::seconds(60)).front();
    ASSERT_TRUE(ending.good() && ending.report.empty())
        << "seed " << seed << ": " << ending.report << (ending.timed_out ? " (timed out)" : "");
  }
}

class Windows : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Replay, Windows, ::testing::Values(1, 2, 3, 4, 8));

TEST_P(Windows, ContentsOrderAndVersions) {
  run_replayed(GetParam(), [](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = kBytes, .shape_digest = 99}, in_time());
    for (std::uint64_t t = 0; t < 12; ++t)
      round(w, *window, at(t), others(w), others(w));
    for (std::uint64_t t = 0; t < 6; ++t)
      round(w, *window, at(t, 1), others(w), others(w));
    for (const WorkerId peer : others(w))
      EXPECT_EQ(w.transport.ledger().at(peer).arrivals, 18u);
    return std::string();
  });
}

TEST_P(Windows, OneLateAndManyNormalRounds) {
  run_replayed(GetParam(), [](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = kBytes}, in_time());
    round(w, *window, at(0), others(w), others(w));
    if (w.rank == 0) std::this_thread::sleep_for(2s);
    publish(w, *window, at(1), kBytes, others(w));
    for (const WorkerId peer : others(w)) {
      const bool late = peer.value == 0;
      const Outcome outcome = window->await(peer, at(1), late ? in(1s) : in_time());
      EXPECT_EQ(std::holds_alternative<Late>(outcome), late);
    }
    for (std::uint64_t t = 2; t < 20; ++t)
      round(w, *window, at(t), others(w), others(w));
    return std::string();
  });
}

TEST_P(Windows, TheLostStayLostAndTheOthersGoOn) {
  run_replayed(GetParam(), [](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = kBytes}, in_time());
    round(w, *window, at(0), others(w), others(w));
    if (w.rank == 0) throw support::Departure{};
    std::vector<WorkerId> left = others(w);
    std::erase(left, WorkerId{0});
    publish(w, *window, at(1), kBytes, others(w));
    EXPECT_TRUE(std::holds_alternative<Lost>(window->await(WorkerId{0}, at(1), in_time())));
    EXPECT_TRUE(w.transport.lost(WorkerId{0}));
    for (const WorkerId peer : left)
      expect_arrival(w, *window, peer, at(1), kBytes);
    for (std::uint64_t t = 2; t < 20; ++t)
      round(w, *window, at(t), others(w), left);
    EXPECT_TRUE(std::holds_alternative<Lost>(window->await(WorkerId{0}, at(20), in_time())));
    return std::string();
  });
}

}  // namespace
}  // namespace kith::replay
