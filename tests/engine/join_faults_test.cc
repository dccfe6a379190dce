// Workers that join slowly, die on the way, do not fit, or come too late.
#include <atomic>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/engine/roster.h"
#include "kith/launch/admissions.h"
#include "kith/optim/methods.h"
#include "tests/engine/join_support.h"
#include "tests/support/deadly_store.h"

namespace kith::engine {
namespace {

// While a newcomer takes its time, with the admission under way, everybody steps: counted, not timed. The
// newcomer holds the state and does not say so before the members have made 50 steps more.
class SlowStore final : public comm::Store {
 public:
  SlowStore(comm::Store& store, std::function<void()> pause) : store_(store), pause_(std::move(pause)) {}

 private:
  void set_for(std::string_view key, std::string_view value, std::stop_token stop) override {
    if (key.ends_with("/ready")) pause_();
    store_.set(key, value, std::move(stop));
  }
  std::optional<std::string> get_for(std::string_view key, std::stop_token stop) override {
    return store_.get(key, std::move(stop));
  }
  std::int64_t add_for(std::string_view key, std::int64_t delta, std::stop_token stop) override {
    return store_.add(key, delta, std::move(stop));
  }
  std::string set_once_for(std::string_view key, std::string_view value, std::stop_token stop) override {
    return store_.set_once(key, value, std::move(stop));
  }
  std::optional<std::string> wait_for(std::string_view key, Deadline deadline,
                                      std::stop_token stop) override {
    return store_.wait(key, deadline, std::move(stop));
  }

  comm::Store& store_;
  const std::function<void()> pause_;
};

TEST(Join, NobodyWaitsForANewcomerThatTakesItsTime) {
  constexpr std::int64_t kMeanwhile = 50;
  const auto shared = std::make_shared<comm::InprocGenerations>();
  std::atomic<std::int64_t> steps{0};
  const auto reports = support::run_world("inproc", kFounders + 1, [&](support::Worker& worker) {
    std::optional<std::int64_t> seen;  // of the newcomer
    SlowStore slow(worker.store, [&] {
      seen = steps;
      while (steps < *seen + kMeanwhile)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    Elastic elastic(worker, "inproc", kFounders, shared, &slow);
    Quadratic<double> quadratic(elastic.worker, options_of("awc"));
    quadratic.engine().start();
    while (members_of(quadratic) != "0 1 2 3 ") {
      step_slowly(quadratic);
      if (worker.rank == 0) steps = quadratic.engine().steps();
    }
    if (worker.rank == kFounders) {
      // By the steps of worker 0: the donor may have been ahead of it.
      EXPECT_TRUE(seen);
      EXPECT_GE(quadratic.engine().view_began(), seen.value_or(0) + kMeanwhile);
    }
    step_to(quadratic, quadratic.engine().view_began() + kMore);
    return account(quadratic);
  });
  expect_equal(reports, {0, 1, 2, 3});
}

// A newcomer that dies in every phase of its joining: with the transport made and the state on its way,
// holding it, calling, opening, and when the view stands. Another one comes after it.
class NewcomerDies : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Join, NewcomerDies,
                         ::testing::Values("application/", "/met/", "/ready", "/called", "/open/"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '/');
                           return name;
                         });
TEST_P(NewcomerDies, AndAnotherOneComes) {
  const auto reports = support::run_world("shm", kFounders + 2, [&](support::Worker& worker) {
    support::DeadlyStore store(worker, worker.rank == kFounders ? GetParam() : "");
    if (worker.rank > kFounders) {
      EXPECT_TRUE(worker.store.wait(cat("died/", kFounders), support::in_time()));
    }
    Elastic elastic(worker, "shm", kFounders, nullptr, &store);
    Quadratic<double> quadratic(elastic.worker, options_of("awc"));
    quadratic.engine().start();
    step_until(quadratic, "0 1 2 4 ");
    step_to(quadratic, quadratic.engine().view_began() + kMore);
    return account(quadratic);
  });
  expect_equal(reports, {0, 1, 2, 4});
}

// The donor of the first admission is worker 1. It dies when it has made the transport, before it gives.
TEST(Join, ADonorThatDiesIsReplaced) {
  const auto reports = support::run_world("shm", kFounders + 1, [&](support::Worker& worker) {
    come_after_founders(worker);
    support::DeadlyStore store(worker, worker.rank == 1 ? "/met/1" : "");
    Elastic elastic(worker, "shm", kFounders, nullptr, &store);
    Quadratic<double> quadratic(elastic.worker, options_of("awc"));
    start(worker, quadratic);
    step_until(quadratic, "0 2 3 ");
    step_to(quadratic, quadratic.engine().view_began() + kMore);
    return account(quadratic);
  });
  expect_equal(reports, {0, 2, 3});
}

// The same when it is about to give, after it has met everybody.
TEST(Join, ADonorThatDiesWhileItGivesIsReplaced) {
  const auto reports = support::run_world("shm", kFounders + 1, [&](support::Worker& worker) {
    come_after_founders(worker);
    Elastic elastic(worker, "shm", kFounders, nullptr);
    Quadratic<double> quadratic(elastic.worker, options_of("awc"));
    if (worker.rank == 1) {
      quadratic.engine().give_along([&] {
        support::die(worker);
        return std::vector<std::byte>();
      });
    }
    start(worker, quadratic);
    step_until(quadratic, "0 2 3 ");
    step_to(quadratic, quadratic.engine().view_began() + kMore);
    return account(quadratic);
  });
  expect_equal(reports, {0, 2, 3});
}

// One dies, one comes, over and over, until none of the founders is left.
TEST(Join, EverybodyIsReplacedInTurn) {
  constexpr int kComing = 4;
  constexpr auto kAllTurns = std::chrono::seconds(120);  // the last one comes after all the others
  const auto reports = support::run_world(
      "shm", kFounders + kComing,
      [&](support::Worker& worker) {
        const auto turn = [](int number) { return cat("turn/", number); };
        const int number = worker.rank - kFounders;  // of the newcomer
        if (number >= 0) {
          EXPECT_TRUE(worker.store.wait(turn(number), support::in(kAllTurns)));
        }
        Elastic elastic(worker, "shm", kFounders, nullptr);
        Quadratic<double> quadratic(elastic.worker, options_of("awc"));
        quadratic.engine().start();
        // Newcomer k comes when worker k - 1 has died.
        for (int change = std::max(0, number); change < kComing; ++change) {
          std::string members;
          for (int k = change; k <= change + kFounders; ++k)
            members += cat(k, " ");
          if (change == 0 && number < 0) worker.store.set_once(turn(0), "go");
          step_until(quadratic, members);
          step_to(quadratic, quadratic.engine().view_began() + 3);
          if (change + 1 == kComing) break;
          if (worker.rank == change) support::die(worker);
          members.erase(0, members.find(' ') + 1);
          step_until(quadratic, members);
          worker.store.set_once(turn(change + 1), "go");
        }
        step_to(quadratic, quadratic.engine().view_began() + kMore);
        return account(quadratic);
      },
      kAllTurns + std::chrono::seconds(30));
  expect_equal(reports, {3, 4, 5, 6});
}

// Who does not fit is told why, and the job goes on.
TEST(Join, AnotherSetupIsRefused) {
  const auto shared = std::make_shared<comm::InprocGenerations>();
  std::atomic<bool> refused{false};
  support::run_world("inproc", kFounders + 1, [&](support::Worker& worker) {
    Elastic elastic(worker, "inproc", kFounders, shared);
    if (worker.rank == kFounders) {
      std::string text = "no failure";
      try {
        Quadratic<double> quadratic(elastic.worker, options_of("atc"));
      } catch (const InputError& error) {
        text = error.what();
      }
      refused = true;
      EXPECT_NE(text.find("the job trains with algorithm awc"), std::string::npos) << text;
      return std::string();
    }
    Quadratic<double> quadratic(elastic.worker, options_of("awc"));
    quadratic.engine().start();
    while (!worker.store.get("end")) {
      step_slowly(quadratic);
      if (refused && worker.rank == 0) worker.store.set_once("end", cat(quadratic.engine().steps() + kMore));
    }
    step_to(quadratic, std::stoll(worker.store.get("end").value()));
    EXPECT_EQ(members_of(quadratic), "0 1 2 ");
    return account(quadratic);
  });
}

// A job that has ended in order takes nobody in, and says so at once.
TEST(Join, TheJobMayBeOver) {
  const auto shared = std::make_shared<comm::InprocGenerations>();
  support::run_world("inproc", kFounders + 1, [&](support::Worker& worker) {
    Elastic elastic(worker, "inproc", kFounders, shared);
    if (worker.rank == kFounders) {
      worker.store.wait("ended", support::in_time());
      EXPECT_THROW(Quadratic<double>(elastic.worker, options_of("awc")), launch::TooLate);
      return std::string();
    }
    {
      Quadratic<double> quadratic(elastic.worker, options_of("awc"));
      quadratic.engine().start();
      step_to(quadratic, 5);
    }
    worker.store.set_once("ended", "yes");
    return std::string();
  });
}

// Nodes of a shape: a newcomer goes to the smallest on its machine.
TEST(Join, ARosterGivesNewcomersANode) {
  Roster roster(Members::first(5), graph::Shape({2, 3}));
  const Members members{
      1, {WorkerId{0}, WorkerId{1}, WorkerId{2}, WorkerId{3}, WorkerId{4}, WorkerId{7}, WorkerId{8}}};
  roster.take_in(members, {0, 0, 1, 1, 1, 1, 2});
  const Members ordered = roster.ordered(members);
  EXPECT_EQ(ordered.workers, members.workers);
  EXPECT_EQ(roster.shape(ordered).text(), "2,4,1");
  Roster other(Members::first(4), graph::Shape({2, 2}));
  const Members less{2, {WorkerId{0}, WorkerId{2}, WorkerId{3}, WorkerId{9}}};
  other.take_in(less, {0, 0, 0, 0});
  EXPECT_EQ(other.ordered(less).workers, (std::vector{WorkerId{0}, WorkerId{9}, WorkerId{2}, WorkerId{3}}));
}

}  // namespace
}  // namespace kith::engine
