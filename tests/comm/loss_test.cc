// Workers that die: on threads they drop their transport, as processes they get SIGKILL.
#include "kith/base/error.h"
#include "tests/comm/conformance.h"

namespace kith::comm::conformance {
namespace {

constexpr std::size_t kBytes = 100'000;

class Loss : public Rows {};
INSTANTIATE_TEST_SUITE_P(
    All, Loss,
    ::testing::Combine(::testing::ValuesIn(support::with_plain_shm(support::all_backends())),
                       ::testing::Values(2, 3, 4, 8)),
    row_name);

std::vector<WorkerId> without(std::vector<WorkerId> workers, WorkerId gone) {
  std::erase(workers, gone);
  return workers;
}

// Survivors get `lost` for worker 0's version t, and go on without it; they still name it among their readers
// for a while, since they learn of the loss at different times.
void go_on(Worker& w, Window& window, std::uint64_t t) {
  const WorkerId victim{0};
  publish(w, window, at(t), kBytes, others(w));
  EXPECT_TRUE(std::holds_alternative<Lost>(window.await(victim, at(t), in_time()))) << w.id();
  EXPECT_TRUE(w.transport.lost(victim));
  EXPECT_EQ(w.transport.ledger().at(victim).lost, 1u);
  for (WorkerId peer : without(others(w), victim))
    expect_arrival(w, window, peer, at(t), kBytes);
  for (std::uint64_t later = t + 1; later < t + 20; ++later) {
    round(w, window, at(later), others(w), without(others(w), victim));
  }
  EXPECT_TRUE(std::holds_alternative<Lost>(window.await(victim, at(t + 20), in_time())))
      << "and it stays lost";
}

TEST_P(Loss, BeforePublishing) {
  run_world(backend(), world(), [](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = kBytes}, in_time());
    for (std::uint64_t t = 0; t < 3; ++t)
      round(w, *window, at(t), others(w), others(w));
    together(w, "before");
    if (w.rank == 0) support::die(w);
    go_on(w, *window, 3);
    return std::string();
  });
}

TEST_P(Loss, WhileWriting) {
  run_world(backend(), world(), [](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = kBytes}, in_time());
    for (std::uint64_t t = 0; t < 3; ++t)
      round(w, *window, at(t), others(w), others(w));
    together(w, "before");
    if (w.rank == 0) {
      const auto begun = window->begin(at(3), in_time());
      fill(std::get<std::span<std::byte>>(begun).first(kBytes / 2), 0, at(3));
      support::die(w);
    }
    go_on(w, *window, 3);
    return std::string();
  });
}

// What was published before the end arrives, even after the loss is known. Where versions have to travel the
// end must be in order: nobody can send what a killed process had not sent yet.
TEST_P(Loss, AfterPublishing) {
  run_world(backend(), world(), [](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = kBytes}, in_time());
    for (std::uint64_t t = 0; t < 3; ++t)
      round(w, *window, at(t), others(w), others(w));
    publish(w, *window, at(3), kBytes, others(w));
    if (w.rank == 0 && support::travels(w.transport.backend())) return std::string();
    if (w.rank == 0) support::die(w);
    const Deadline limit = in_time();
    while (!w.transport.lost(WorkerId{0}) && SteadyClock().now() < limit)
      std::this_thread::sleep_for(1ms);
    for (WorkerId peer : others(w))
      expect_arrival(w, *window, peer, at(3), kBytes);
    go_on(w, *window, 4);
    return std::string();
  });
}

// A reader that dies while it holds an arrival frees the slot.
TEST_P(Loss, WhileReading) {
  run_world(backend(), world(), [](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = kBytes}, in_time());
    all_have_opened(w);
    publish(w, *window, at(0), kBytes, others(w));
    for (WorkerId peer : others(w)) {
      const Outcome outcome = window->await(peer, at(0), in_time());
      EXPECT_TRUE(std::holds_alternative<Arrival>(outcome));
      if (w.rank != 0) continue;
      together(w, "reading");
      support::die(w);
    }
    together(w, "reading");
    go_on(w, *window, 1);
    return std::string();
  });
}

TEST_P(Loss, InLatestMode) {
  run_world(backend(), world(), [](Worker& w) {
    const auto window =
        w.transport.open({.name = "w", .bytes = kBytes, .slots = 3, .mode = WindowMode::latest}, in_time());
    all_have_opened(w);
    publish(w, *window, at(0), kBytes, {});
    for (WorkerId peer : others(w)) {
      const Outcome outcome = window->newest(peer, {}, in_time());
      EXPECT_TRUE(std::holds_alternative<Arrival>(outcome));
      if (w.rank != 0) continue;
      together(w, "reading");
      support::die(w);
    }
    together(w, "reading");
    for (std::uint64_t t = 1; t < 20; ++t)
      publish(w, *window, at(t), kBytes, {});
    EXPECT_TRUE(std::holds_alternative<Lost>(window->newest(WorkerId{0}, at(0), in_time())));
    return std::string();
  });
}

TEST_P(Loss, BeforeOpening) {
  run_world(backend(), world(), [](Worker& w) {
    const auto first = w.transport.open({.name = "first", .bytes = kBytes}, in_time());
    all_have_opened(w);
    if (w.rank == 0) support::die(w);
    try {
      w.transport.open({.name = "second", .bytes = kBytes}, in_time());
      ADD_FAILURE() << "opened with a dead worker";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("worker 0 is lost"), std::string::npos) << e.what();
    }
    return std::string();
  });
}

}  // namespace
}  // namespace kith::comm::conformance
