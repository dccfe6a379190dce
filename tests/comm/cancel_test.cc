// Waits that end before their deadline, and ends that do not wait.
#include <atomic>

#include "kith/base/error.h"
#include "kith/comm/cancellable.h"
#include "kith/comm/take_slot.h"
#include "tests/comm/conformance.h"
#include "tests/support/failure.h"

namespace kith::comm::conformance {
namespace {

using support::failure_of;
using support::Processes;
using support::TempFolder;

constexpr std::size_t kBytes = 4096;
// Whatever waits for a deadline fails the test by its length.
Deadline in_ten_minutes() {
  return in(10min);
}
constexpr auto kAtOnce = 1s;

class Cancel : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Cancel, ::testing::ValuesIn(support::with_plain_shm(support::all_backends())),
                         [](const auto& param) { return param.param; });

// Two threads of worker 0 wait, one to read and one to write; worker 1 does neither, and then goes on.
TEST_P(Cancel, WaitsUnderWayEndAtOnceAndNobodyElseIsHeldUp) {
  run_world(GetParam(), 2, [](Worker& w) {
    const WorkerId peer{1 - w.rank};
    CancellableTransport own(w.transport);
    const auto other = w.transport.open({.name = "other", .bytes = kBytes}, in_time());
    const auto window = own.open({.name = "w", .bytes = kBytes}, in_time());
    if (w.rank == 0) {
      publish(w, *window, at(0), kBytes, {peer});
      publish(w, *window, at(1), kBytes, {peer});
      std::thread reads(
          [&] { EXPECT_TRUE(std::holds_alternative<Late>(window->await(peer, at(0), in_ten_minutes()))); });
      std::thread writes([&] {
        const auto begun = window->begin(at(2), in_ten_minutes());
        EXPECT_TRUE(std::holds_alternative<Late>(begun));
      });
      std::this_thread::sleep_for(30ms);  // right also for those that have not begun to wait
      const auto start = SteadyClock().now();
      own.cancel();
      reads.join();
      writes.join();
      EXPECT_TRUE(std::holds_alternative<Late>(window->await(peer, at(1), in_ten_minutes())));
      const std::string text =
          failure_of<Error>([&] { take_slot(*window, at(2), in_ten_minutes(), "worker 0"); });
      EXPECT_EQ(text, "worker 0: the wait for worker 1 in w was cancelled");
      EXPECT_LT(SteadyClock().now() - start, kAtOnce);
      w.store.set("cancelled", "");
    } else {
      EXPECT_TRUE(w.store.wait("cancelled", in_time()));
      expect_arrival(w, *window, peer, at(0), kBytes);
      expect_arrival(w, *window, peer, at(1), kBytes);
      publish(w, *window, at(2), kBytes, {});
    }
    round(w, *other, at(0), {peer}, {peer});
    together(w, "end");
    return std::string();
  });
}

TEST_P(Cancel, InLatestMode) {
  run_world(GetParam(), 2, [](Worker& w) {
    CancellableTransport own(w.transport);
    const auto window =
        own.open({.name = "w", .bytes = kBytes, .slots = 3, .mode = WindowMode::latest}, in_time());
    if (w.rank == 1) {
      EXPECT_TRUE(w.store.wait("cancelled", in_time()));
      return std::string();
    }
    std::thread cancels([&] {
      std::this_thread::sleep_for(30ms);
      own.cancel();
    });
    const auto start = SteadyClock().now();
    EXPECT_TRUE(std::holds_alternative<Late>(window->newest(WorkerId{1}, {}, in_ten_minutes())));
    EXPECT_LT(SteadyClock().now() - start, kAtOnce);
    cancels.join();
    w.store.set("cancelled", "");
    return std::string();
  });
}

TEST_P(Cancel, AnOpeningEndsInAnErrorAtOnce) {
  run_world(GetParam(), 2, [](Worker& w) {
    const auto first = w.transport.open({.name = "first", .bytes = kBytes}, in_time());
    if (w.rank == 1) {
      EXPECT_TRUE(w.store.wait("cancelled", in_time()));
      return std::string();
    }
    CancellableTransport own(w.transport);
    std::thread cancels([&] {
      std::this_thread::sleep_for(30ms);
      own.cancel();
    });
    const auto start = SteadyClock().now();
    const std::string text =
        failure_of<Error>([&] { own.open({.name = "second", .bytes = kBytes}, in_ten_minutes()); });
    EXPECT_LT(SteadyClock().now() - start, kAtOnce);
    EXPECT_EQ(text, "worker 0 opens window 'second': it was cancelled");
    cancels.join();
    w.store.set("cancelled", "");
    return std::string();
  });
}

// A peer that is stopped takes nothing; what was sent to it last fills its sockets.
class CancelStopped : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, CancelStopped,
                         ::testing::ValuesIn(support::with_plain_shm(support::process_backends())),
                         [](const auto& param) { return param.param; });

// Worker 1 is the one that connects, and worker 0's process is stopped before it answers.
TEST_P(CancelStopped, AnOpeningThatStillConnectsEndsAtOnce) {
  const TempFolder folder;
  FileStore store(folder.path());
  Processes processes(2, [&](int index) {
    return support::run_process(GetParam(), index, 2, folder.path(), [&](Worker& w) {
      w.store.set(cat("ready/", w.rank), "");
      if (w.rank == 0) {
        w.store.wait("never", in_ten_minutes());
        return std::string();
      }
      EXPECT_TRUE(w.store.wait("stopped", in_time()));
      CancellableTransport own(w.transport);
      std::thread cancels([&] {
        std::this_thread::sleep_for(30ms);  // right also where it has not begun to connect
        own.cancel();
      });
      const auto start = SteadyClock().now();
      EXPECT_EQ(failure_of<Error>([&] { own.open({.name = "w", .bytes = kBytes}, in_time()); }),
                "worker 1 opens window 'w': it was cancelled");
      EXPECT_LT(SteadyClock().now() - start, kAtOnce);
      cancels.join();
      w.store.set("ended", "");
      return std::string();
    });
  });
  for (int rank : {0, 1})
    ASSERT_TRUE(store.wait(cat("ready/", rank), in_time()));
  processes.send(0, SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(processes.pid(0), &status, WUNTRACED), processes.pid(0));
  store.set("stopped", "");
  EXPECT_TRUE(store.wait("ended", in_time()));
  processes.send(0, SIGKILL);
  const auto endings = processes.join(30s);
  EXPECT_TRUE(endings[1].good()) << endings[1].report;
}

TEST_P(CancelStopped, EndsTakeASecondAtMost) {
  constexpr std::size_t kLong = 20'000'000;
  const TempFolder folder;
  FileStore store(folder.path());
  Clock::Time began{};  // in worker 0
  Processes processes(2, [&](int index) {
    const std::string report = support::run_process(GetParam(), index, 2, folder.path(), [&](Worker& w) {
      const auto window = w.transport.open({.name = "w", .bytes = kLong}, in_time());
      round(w, *window, at(0), others(w), others(w));
      w.store.set(cat("ready/", w.rank), "");
      EXPECT_TRUE(w.store.wait("stopped", in_time()));
      publish(w, *window, at(1), kLong, others(w));
      publish(w, *window, at(2), kLong, others(w));
      EXPECT_TRUE(std::holds_alternative<Late>(window->begin(at(3), in(100ms))));
      began = SteadyClock().now();
      return std::string();
    });
    EXPECT_LT(SteadyClock().now() - began, kAtOnce);
    FileStore(folder.path()).set("ended", "");
    return report;
  });
  for (int rank : {0, 1})
    ASSERT_TRUE(store.wait(cat("ready/", rank), in_time()));
  processes.send(1, SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(processes.pid(1), &status, WUNTRACED), processes.pid(1));
  store.set("stopped", "");
  EXPECT_TRUE(store.wait("ended", in_time()));
  processes.send(1, SIGKILL);
  const auto endings = processes.join(30s);
  EXPECT_TRUE(endings[0].good()) << endings[0].report;
}

}  // namespace
}  // namespace kith::comm::conformance
