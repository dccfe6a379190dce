// Agreed steps: nobody passes the common step, nobody asks the store in a step.
#include "kith/train/stop_request.h"

#include <barrier>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/log.h"
#include "kith/base/rng.h"
#include "tests/support/counting_store.h"
#include "tests/support/failure.h"
#include "tests/support/worlds.h"

namespace kith::train {
namespace {

using ::testing::HasSubstr;

// Rounds of a ring: nobody begins a step that a neighbour is more than one step away from.
class Ring {
 public:
  explicit Ring(int workers) : done_(static_cast<std::size_t>(workers), 0) {}
  void step(int rank) {
    std::unique_lock lock(mutex_);
    const std::size_t n = done_.size(), self = static_cast<std::size_t>(rank);
    changed_.wait(lock, [&] {
      return done_[(self + 1) % n] >= done_[self] && done_[(self + n - 1) % n] >= done_[self];
    });
    ++done_[self];
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::int64_t> done_;
};

engine::WorldParts world_of(support::Worker& worker, comm::Store& store, const Clock& clock, Log& log) {
  return {&worker.transport, &store, Members::first(worker.size), &clock, &log, nullptr};
}

// Each worker goes its way, asks at steps of its own, and says what it did when.
std::vector<std::string> walk(int workers, std::uint64_t seed, bool coupled) {
  Ring ring(workers);
  return support::run_threads(workers, [&](support::Worker& worker) {
    SteadyClock clock;
    NullLog log;
    StopRequests requests(world_of(worker, worker.store, clock, log));
    Rng rng(hash_words(seed, worker.rank));
    const auto first = static_cast<std::int64_t>(5 + rng.below(100));
    const auto last = static_cast<std::int64_t>(first + 1 + static_cast<std::int64_t>(rng.below(100)));
    std::string acted;
    for (std::int64_t steps = 0; steps < 1'000'000; ++steps) {
      if (steps == first) requests.ask(Request::save);
      if (steps == last) requests.ask(Request::terminate);
      if (const auto request = requests.due(steps)) {
        acted += cat(steps, *request == Request::save ? " save " : " end");
        if (*request != Request::save) return acted;
      }
      if (coupled) ring.step(worker.rank);
      if (rng.below(3) == 0) std::this_thread::sleep_for(std::chrono::microseconds(rng.below(200)));
    }
    return std::string("never");
  });
}

TEST(StopRequests, AllWorkersActAtTheSameStepsWhereverTheyAre) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (const bool coupled : {false, true}) {
      const auto acted = walk(5, seed, coupled);
      EXPECT_THAT(acted[0], HasSubstr(" end")) << "seed " << seed;
      for (const std::string& other : acted)
        EXPECT_EQ(other, acted[0]) << "seed " << seed << (coupled ? ", on a ring" : ", freely");
    }
  }
}

TEST(StopRequests, AWorkerAloneActsToo) {
  EXPECT_THAT(walk(1, 1, false)[0], HasSubstr(" end"));
}

// A worker that joins acts with the others from its first step between them on, whatever was asked before,
// and whatever is being agreed on just then.
TEST(StopRequests, ANewcomerActsWithTheOthers) {
  constexpr std::int64_t kJoins = 30;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::barrier in_the_view(4), followed(4);
    const auto acted = support::run_threads(4, [&](support::Worker& worker) {
      SteadyClock clock;
      NullLog log;
      const bool newcomer = worker.rank == 3;
      engine::WorldParts world = world_of(worker, worker.store, clock, log);
      if (!newcomer) world.members = Members::first(3);
      StopRequests requests(world, {.joined = newcomer});
      Rng rng(hash_words(seed, worker.rank));
      const auto first = static_cast<std::int64_t>(20 + rng.below(20));
      const auto last = static_cast<std::int64_t>(kJoins + 10 + static_cast<std::int64_t>(rng.below(50)));
      std::string acted;
      for (std::int64_t steps = newcomer ? kJoins : 0; steps < 1'000'000; ++steps) {
        if (steps == kJoins) {
          in_the_view.arrive_and_wait();
          requests.follow(Members::first(4));
          followed.arrive_and_wait();
        }
        if (steps == first) requests.ask(Request::save);
        if (steps == last) requests.ask(Request::terminate);
        if (const auto request = requests.due(steps)) {
          if (steps >= kJoins) acted += cat(steps, *request == Request::save ? " save " : " end");
          if (*request != Request::save) return acted;
        }
        if (rng.below(3) == 0) std::this_thread::sleep_for(std::chrono::microseconds(rng.below(200)));
      }
      return std::string("never");
    });
    EXPECT_THAT(acted[0], HasSubstr(" end")) << "seed " << seed;
    for (const std::string& other : acted)
      EXPECT_EQ(other, acted[0]) << "seed " << seed;
  }
}

TEST(StopRequests, StepsAskTheStoreNothing) {
  support::run_threads(2, [](support::Worker& worker) {
    SteadyClock clock;
    NullLog log;
    support::CountingStore store(worker.store);
    StopRequests requests(world_of(worker, store, clock, log));
    for (std::int64_t steps = 0; steps < 1000; ++steps) {
      if (steps == 500) requests.ask(Request::save);
      requests.due(steps);
    }
    EXPECT_EQ(store.calls_of_this_thread(), 0);
    return std::string();
  });
}

TEST(StopRequests, TheOthersAgreeWithoutALostWorker) {
  support::run_threads(2, [](support::Worker& worker) -> std::string {
    if (worker.rank == 1) {  // says nothing, and leaves when the other has said where it is
      EXPECT_TRUE(worker.store.wait("requests/0/at/0", support::in_time()));
      support::die(worker);
    }
    SteadyClock clock;
    NullLog log;
    StopRequests requests(world_of(worker, worker.store, clock, log));
    requests.ask(Request::save);
    std::optional<Request> request;
    for (std::int64_t steps = 0; !request; ++steps)
      request = requests.due(steps);
    EXPECT_EQ(*request, Request::save);
    return std::string();
  });
}

// Answers all but one kind of call; that one ends by a stop, or much too late.
class SilentStore final : public comm::Store {
 public:
  SilentStore(comm::Store& store, std::string silent) : store_(store), silent_(std::move(silent)) {}
  // Returns when a call goes unanswered.
  void await_silence() { asked_.get_future().wait(); }

 private:
  void hear(const std::string& call, const std::stop_token& stop) {
    if (call != silent_) return;
    asked_.set_value();
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    never.wait_for(lock, stop, std::chrono::seconds(10), [] { return false; });
    throw Error("no answer");
  }
  void set_for(std::string_view key, std::string_view value, std::stop_token stop) override {
    hear("set", stop);
    store_.set(key, value);
  }
  std::optional<std::string> get_for(std::string_view key, std::stop_token stop) override {
    hear("get", stop);
    return store_.get(key);
  }
  std::int64_t add_for(std::string_view key, std::int64_t delta, std::stop_token stop) override {
    hear("add", stop);
    return store_.add(key, delta);
  }
  std::string set_once_for(std::string_view key, std::string_view value, std::stop_token stop) override {
    hear(key.ends_with("/agreed") ? "set_once agreed" : "set_once", stop);
    return store_.set_once(key, value);
  }
  std::optional<std::string> wait_for(std::string_view key, Deadline deadline,
                                      std::stop_token stop) override {
    return store_.wait(key, deadline, std::move(stop));
  }

  comm::Store& store_;
  const std::string silent_;
  std::promise<void> asked_;
};

// A word on its way to a store whose process is stopped held up the end of the worker for ten minutes.
TEST(StopRequests, EndAtOnceWhateverTheStoreLeavesUnanswered) {
  for (const char* silent : {"set_once", "set", "set_once agreed"}) {
    support::run_threads(1, [&](support::Worker& worker) {
      SteadyClock clock;
      NullLog log;
      SilentStore store(worker.store, silent);
      std::optional<StopRequests> requests(std::in_place, world_of(worker, store, clock, log),
                                           StopRequestOptions{.name = silent});
      requests->ask(Request::save);
      requests->due(0);
      store.await_silence();
      const Clock::Time start = clock.now();
      requests.reset();
      EXPECT_LT(clock.now() - start, std::chrono::seconds(1)) << silent;
      return std::string();
    });
  }
}

}  // namespace
}  // namespace kith::train
