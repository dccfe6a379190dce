// Rules of rounds that do not depend on the size.
#include "kith/base/check.h"
#include "tests/comm/conformance.h"

namespace kith::comm::conformance {
namespace {

constexpr std::size_t kBytes = 4096;

class Rounds : public Rows {};
INSTANTIATE_TEST_SUITE_P(
    All, Rounds,
    ::testing::Combine(::testing::ValuesIn(support::with_plain_shm(support::all_backends())),
                       ::testing::Values(1, 2, 3, 4, 8)),
    row_name);

TEST_P(Rounds, ManyWindowsAtOnce) {
  run_world(backend(), world(), [](Worker& w) {
    std::vector<std::unique_ptr<Window>> windows;
    for (std::size_t i = 0; i < 24; ++i) {
      windows.push_back(w.transport.open({.name = cat("bucket", i), .bytes = 100 * i + 1}, in_time()));
    }
    for (std::uint64_t t = 0; t < 10; ++t) {
      for (auto& window : windows)
        publish(w, *window, at(t), window->options().bytes, others(w));
      for (auto& window : windows) {
        for (WorkerId peer : others(w))
          expect_arrival(w, *window, peer, at(t), window->options().bytes);
      }
    }
    return std::string();
  });
}

// Pairs share windows that nobody else knows of.
TEST_P(Rounds, WindowsAmongAFew) {
  run_world(backend(), world(), [](Worker& w) {
    const int partner = w.rank ^ 1;
    if (partner >= w.size) return std::string();
    const auto window =
        w.transport.open({.name = "pair", .bytes = kBytes, .peers = {w.id(), WorkerId{partner}}}, in_time());
    EXPECT_EQ(window->options().peers, std::vector{WorkerId{partner}});
    for (std::uint64_t t = 0; t < 50; ++t)
      round(w, *window, at(t), {WorkerId{partner}}, {WorkerId{partner}});
    return std::string();
  });
}

TEST_P(Rounds, AWindowCanBeOpenedAgain) {
  run_world(backend(), world(), [](Worker& w) {
    for (std::size_t bytes : {kBytes, 2 * kBytes}) {
      const auto window = w.transport.open({.name = "w", .bytes = bytes}, in_time());
      for (std::uint64_t t = 0; t < 5; ++t)
        round(w, *window, at(t), others(w), others(w));
    }
    return std::string();
  });
}

// The last worker is named but never reads: begin says who holds the slot, at its deadline and not before.
TEST_P(Rounds, AReaderThatNeverComes) {
  run_world(backend(), world(), [](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = kBytes}, in_time());
    const WorkerId sleeper{w.size - 1};
    if (w.rank == 0 && w.size > 1) {
      publish(w, *window, at(0), kBytes, {sleeper});
      publish(w, *window, at(1), kBytes, {sleeper});
      Clock::Duration waited{};
      for (int attempt = 0; attempt < 2; ++attempt) {
        const auto start = SteadyClock().now();
        const auto begun = window->begin(at(2), in(30ms));
        EXPECT_GE(SteadyClock().now() - start, 30ms);
        const Late* late = std::get_if<Late>(&begun);
        EXPECT_NE(late, nullptr);
        if (late == nullptr) continue;
        EXPECT_EQ(late->peer, sleeper);
        EXPECT_EQ(late->version, at(2));
        EXPECT_GT(late->waited, 0ms);
        waited += late->waited;
      }
      EXPECT_TRUE(holds(window->slot(at(0)), 0, at(0))) << "a begin that failed changes nothing";
      EXPECT_EQ(w.transport.ledger().at(sleeper).held_up, waited);
      w.store.set("tried", "");
      EXPECT_EQ(window->begin(at(2), in_time()).index(), 0u) << "the slot is free once the reader has left";
    }
    if (w.rank != 0 && w.id() == sleeper) {
      EXPECT_TRUE(w.store.wait("tried", in_time()));
    }
    return std::string();
  });
}

// Everybody is late once for worker 0's first version; afterwards nothing is held up.
TEST_P(Rounds, OneLateThenHundredsOfNormalRounds) {
  run_world(backend(), world(), [](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = 64}, in_time());
    if (w.rank == 0) {
      for (WorkerId peer : others(w))
        EXPECT_TRUE(w.store.wait(cat("late/", peer.value), in_time()));
    } else {
      const auto start = SteadyClock().now();
      const Outcome outcome = window->await(WorkerId{0}, at(0), in(10ms));
      EXPECT_GE(SteadyClock().now() - start, 10ms);
      const Late* late = std::get_if<Late>(&outcome);
      EXPECT_NE(late, nullptr);
      if (late != nullptr) {
        EXPECT_EQ(late->peer, WorkerId{0});
        EXPECT_EQ(late->version, at(0));
        EXPECT_GT(late->waited, 0ms);
      }
      EXPECT_EQ(w.transport.ledger().at(WorkerId{0}).late, 1u);
      w.store.set(cat("late/", w.rank), "");
    }
    publish(w, *window, at(0), 64, w.rank == 0 ? others(w) : std::vector<WorkerId>{});
    for (std::uint64_t t = 1; t <= 300; ++t)
      round(w, *window, at(t), others(w), others(w));
    return std::string();
  });
}

// A reader that skips, and a writer that skips: neither holds the other up.
TEST_P(Rounds, SkippedVersions) {
  run_world(backend(), world(), [](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = 64}, in_time());
    for (std::uint64_t t = 0; t < 60; ++t) {
      const bool published = t % 5 != 4;
      if (published) publish(w, *window, at(t), 64, others(w));
      for (WorkerId peer : others(w)) {
        if (t % 3 == 2) {
          window->skip(peer, at(t));
        } else if (published) {
          expect_arrival(w, *window, peer, at(t), 64);
        } else {
          // Late at the deadline, or at once when the peer has gone on already.
          EXPECT_TRUE(std::holds_alternative<Late>(window->await(peer, at(t), in(1ms))));
        }
      }
    }
    return std::string();
  });
}

TEST_P(Rounds, ArrivalsMayBeReleasedInAnyOrder) {
  run_world(backend(), world(), [](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = 64, .slots = 4}, in_time());
    for (std::uint64_t t = 0; t < 40; t += 2) {
      publish(w, *window, at(t), 64, others(w));
      publish(w, *window, at(t + 1), 64, others(w));
      for (WorkerId peer : others(w)) {
        Outcome first = window->await(peer, at(t), in_time());
        Outcome second = window->await(peer, at(t + 1), in_time());
        EXPECT_EQ(first.index() + second.index(), 0u);
        if (first.index() + second.index() > 0) return std::string();
        std::get<Arrival>(second).release();
        EXPECT_TRUE(holds(std::get<Arrival>(first).data(), peer.value, at(t)));
        std::get<Arrival>(first).release();
      }
    }
    return std::string();
  });
}

TEST_P(Rounds, MisuseIsABug) {
  run_world(backend(), world(), [](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = 64}, in_time());
    EXPECT_THROW(window->publish(at(0), {.bytes = 64}), Bug) << "publish without begin";
    EXPECT_EQ(window->begin(at(3), in_time()).index(), 0u);
    EXPECT_THROW(window->publish(at(3), {.bytes = 65}), Bug) << "a payload beyond the slot";
    EXPECT_THROW(window->publish(at(3), {.bytes = 64, .readers = {w.id()}}), Bug) << "reading oneself";
    window->publish(at(3), {.bytes = 64});
    EXPECT_THROW(window->begin(at(3), in_time()), Bug) << "a version twice";
    EXPECT_THROW(window->await(WorkerId{99}, at(0), in_time()), Bug) << "nobody's version";
    for (WorkerId peer : others(w)) {
      EXPECT_THROW(window->await(peer, at(3), in_time()), Bug) << "not named among the readers";
      EXPECT_THROW(window->await(peer, at(3), in_time()), Bug) << "awaited twice";
    }
    together(w, "end");
    return std::string();
  });
}

}  // namespace
}  // namespace kith::comm::conformance
