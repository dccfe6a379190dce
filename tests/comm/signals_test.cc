// Faults that only processes have: SIGKILL on a busy machine, SIGSTOP and SIGCONT.
#include <thread>

#include <sys/mman.h>

#include "tests/comm/conformance.h"

namespace kith::comm::conformance {
namespace {

using support::Processes;
using support::run_process;
using support::TempFolder;

std::int64_t now_ns() {
  return SteadyClock().now().time_since_epoch().count();
}

void expect_good(const support::Ending& ending, int index) {
  EXPECT_TRUE(ending.good()) << "process " << index << ": exit code " << ending.exit_code << ", signal "
                             << ending.signal << (ending.timed_out ? ", timed out" : "") << ": "
                             << ending.report;
}

// Keeps a core busy between the keys "burn" and "done", for the time of a test at most.
std::string burn(FileStore& store, int index) {
  const Deadline limit = in_time();
  EXPECT_TRUE(store.wait("burn", limit));
  store.set(cat("burns/", index), "");
  volatile std::uint64_t sum = 0;
  while (SteadyClock().now() < limit && !store.get("done")) {
    for (int i = 0; i < 10'000'000; ++i)
      sum = sum + static_cast<std::uint64_t>(i);
  }
  return {};
}

class Signals : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Signals,
                         ::testing::ValuesIn(support::with_plain_shm(support::process_backends())),
                         [](const auto& param) { return param.param; });

// In shared memory within 100 ms. A connection tells of a death only after the memory was torn down, so over
// the network the worker holds less, and it may take 1 s.
TEST_P(Signals, KillOfAHeavyWorkerOnABusyMachineIsKnownSoon) {
  constexpr int kWorkers = 4;
  const bool network = support::travels(GetParam());
  const std::size_t kHeld = std::size_t{network ? 256u : 2048u} << 20;
  const double most_ms = network ? 1000 : 100;
  const int busy = static_cast<int>(std::thread::hardware_concurrency());
  const TempFolder folder;
  FileStore store(folder.path());
  Processes processes(kWorkers + busy, [&](int index) {
    FileStore own(folder.path());
    if (index >= kWorkers) return burn(own, index);
    return run_process(GetParam(), index, kWorkers, folder.path(), [&](Worker& w) {
      const auto window = w.transport.open({.name = "w", .bytes = 4096}, in_time());
      round(w, *window, at(0), others(w), others(w));
      if (w.rank == 0) {
        void* memory =
            ::mmap(nullptr, kHeld, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        EXPECT_NE(memory, MAP_FAILED);
      }
      w.store.set(cat("ready/", w.rank), "");
      if (w.rank == 0) {
        w.store.wait("never", in_time());
        return std::string("was not killed");
      }
      const Outcome outcome = window->await(WorkerId{0}, at(1), in_time());
      const std::int64_t noticed = now_ns();
      w.store.set(cat("noticed/", w.rank), "");
      EXPECT_TRUE(std::holds_alternative<Lost>(outcome)) << "outcome " << outcome.index();
      return std::to_string(noticed);
    });
  });
  for (int rank = 0; rank < kWorkers; ++rank) {
    ASSERT_TRUE(store.wait(cat("ready/", rank), in_time())) << "worker " << rank;
  }
  store.set("burn", "");
  for (int i = kWorkers; i < kWorkers + busy; ++i)
    ASSERT_TRUE(store.wait(cat("burns/", i), in_time()));
  const std::int64_t killed = now_ns();
  processes.send(0, SIGKILL);
  for (int rank = 1; rank < kWorkers; ++rank)
    ASSERT_TRUE(store.wait(cat("noticed/", rank), in_time()));
  store.set("done", "");
  const auto endings = processes.join(30s);
  EXPECT_EQ(endings[0].signal, SIGKILL);
  double slowest_ms = 0;
  for (int rank = 1; rank < kWorkers; ++rank) {
    const auto& ending = endings[static_cast<std::size_t>(rank)];
    expect_good(ending, rank);
    if (!ending.good()) continue;
    const double ms = static_cast<double>(std::stoll(ending.report) - killed) * 1e-6;
    EXPECT_LT(ms, most_ms) << "worker " << rank;
    slowest_ms = std::max(slowest_ms, ms);
  }
  RecordProperty("slowest_notice_us", static_cast<int>(slowest_ms * 1000));
  std::printf("slowest neighbour knew after %.2f ms\n", slowest_ms);
}

TEST_P(Signals, StopMeansLateAtTheDeadlineAndContinueMeansNormalAgain) {
  constexpr int kWorkers = 3;
  constexpr std::uint64_t kBefore = 20, kAfter = 300;
  const TempFolder folder;
  FileStore store(folder.path());
  Processes processes(kWorkers, [&](int index) {
    return run_process(GetParam(), index, kWorkers, folder.path(), [&](Worker& w) {
      const auto window = w.transport.open({.name = "w", .bytes = 4096}, in_time());
      for (std::uint64_t t = 0; t < kBefore; ++t)
        round(w, *window, at(t), others(w), others(w));
      w.store.set(cat("ready/", w.rank), "");
      EXPECT_TRUE(w.store.wait("stopped", in_time()));
      publish(w, *window, at(kBefore), 4096, others(w));
      for (WorkerId peer : others(w)) {
        if (w.rank == 0 || peer.value != 0) {
          expect_arrival(w, *window, peer, at(kBefore), 4096);
          continue;
        }
        const auto start = SteadyClock().now();
        const Outcome outcome = window->await(peer, at(kBefore), in(100ms));
        EXPECT_GE(SteadyClock().now() - start, 100ms);
        const Late* late = std::get_if<Late>(&outcome);
        EXPECT_NE(late, nullptr) << "outcome " << outcome.index();
        if (late == nullptr) continue;
        EXPECT_GT(late->waited, 0ms);
        EXPECT_LT(late->waited, 5s);
        EXPECT_FALSE(w.transport.lost(peer));
      }
      w.store.set(cat("late/", w.rank), "");
      for (std::uint64_t t = kBefore + 1; t <= kBefore + kAfter; ++t)
        round(w, *window, at(t), others(w), others(w));
      return std::string();
    });
  });
  for (int rank = 0; rank < kWorkers; ++rank)
    ASSERT_TRUE(store.wait(cat("ready/", rank), in_time()));
  processes.send(0, SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(processes.pid(0), &status, WUNTRACED), processes.pid(0));
  ASSERT_TRUE(WIFSTOPPED(status));
  store.set("stopped", "");
  for (int rank = 1; rank < kWorkers; ++rank)
    ASSERT_TRUE(store.wait(cat("late/", rank), in_time()));
  processes.send(0, SIGCONT);
  const auto endings = processes.join(60s);
  for (int rank = 0; rank < kWorkers; ++rank)
    expect_good(endings[static_cast<std::size_t>(rank)], rank);
}

}  // namespace
}  // namespace kith::comm::conformance
