// Windows among some of a transport's workers, and what a worker that dies meanwhile does to them: what a
// change of members needs.
#include "kith/base/error.h"
#include "tests/comm/conformance.h"

namespace kith::comm::conformance {
namespace {

constexpr std::size_t kBytes = 50'000;

// backend x world, and who dies: the first worker, one between, or the last.
class Subset : public ::testing::TestWithParam<std::tuple<std::string, int, std::string>> {
 protected:
  std::string backend() const { return std::get<0>(GetParam()); }
  int world() const { return std::get<1>(GetParam()); }
  WorkerId victim() const {
    const std::string& who = std::get<2>(GetParam());
    return WorkerId{who == "first" ? 0 : who == "last" ? world() - 1 : world() / 2};
  }
};
INSTANTIATE_TEST_SUITE_P(
    All, Subset,
    ::testing::Combine(::testing::ValuesIn(support::with_plain_shm(support::all_backends())),
                       ::testing::Values(3, 5), ::testing::Values("first", "middle", "last")),
    [](const auto& cell) {
      return cat(std::get<0>(cell.param), "_", std::get<1>(cell.param), "_", std::get<2>(cell.param));
    });

std::vector<WorkerId> survivors(const Worker& w, WorkerId victim) {
  std::vector<WorkerId> left = others(w);
  std::erase(left, victim);
  return left;
}

// Opens it with these alone, and exchanges a few versions.
void work_with(Worker& w, const std::string& name, const std::vector<WorkerId>& peers) {
  const auto window = w.transport.open({.name = name, .bytes = kBytes, .peers = peers}, in_time());
  EXPECT_EQ(window->options().peers, peers);
  for (std::uint64_t t = 0; t < 8; ++t)
    round(w, *window, at(t), peers, peers);
  together(w, cat(name, " used"), peers);
}

// They need not know of the loss when they begin.
TEST_P(Subset, OpensWithoutAWorkerThatIsLost) {
  run_world(backend(), world(), [this](Worker& w) {
    const auto first = w.transport.open({.name = "first", .bytes = kBytes}, in_time());
    round(w, *first, at(0), others(w), others(w));
    together(w, "before");
    if (w.id() == victim()) support::die(w);
    work_with(w, "second", survivors(w, victim()));
    EXPECT_TRUE(std::holds_alternative<Lost>(first->await(victim(), at(1), in_time())));
    work_with(w, "third", survivors(w, victim()));
    return std::string();
  });
}

TEST_P(Subset, OpensWithoutAWorkerThatNobodyHasMet) {
  run_world(backend(), world(), [this](Worker& w) {
    if (w.id() == victim()) support::die(w);
    work_with(w, "first", survivors(w, victim()));
    return std::string();
  });
}

// All have met. One dies instead of opening the next window: nobody opens it, and the one after is opened
// among the rest.
TEST_P(Subset, TheNextOpeningIsAmongTheRest) {
  run_world(backend(), world(), [this](Worker& w) {
    const auto first = w.transport.open({.name = "first", .bytes = kBytes}, in_time());
    all_have_opened(w);
    if (w.id() == victim()) support::die(w);
    EXPECT_THROW(w.transport.open({.name = "second", .bytes = kBytes}, in_time()), Error);
    work_with(w, "third", survivors(w, victim()));
    return std::string();
  });
}

// One dies when some have its side of the window and others do not. Whoever has it may succeed.
TEST_P(Subset, AHalfOpenedWindowIsLeftBehind) {
  run_world(backend(), world(), [this](Worker& w) {
    const auto first = w.transport.open({.name = "first", .bytes = kBytes}, in_time());
    all_have_opened(w);
    const WorkerId favourite{(victim().value + 1) % w.size};
    if (w.id() == victim()) {
      w.transport.open({.name = "second", .bytes = kBytes, .peers = {favourite}}, in_time());
      support::die(w);
    }
    bool opened = true;
    try {
      w.transport.open({.name = "second", .bytes = kBytes}, in_time());
    } catch (const Error&) {
      opened = false;
    }
    EXPECT_TRUE(!opened || w.id() == favourite) << w.id();
    work_with(w, "third", survivors(w, victim()));
    return std::string();
  });
}

// A worker that was never met and dies before the first window is not waited for until the deadline.
TEST_P(Subset, AWorkerThatNobodyHasMetIsFoundDead) {
  run_world(backend(), world(), [this](Worker& w) {
    if (w.id() == victim()) support::die(w);
    const auto start = SteadyClock().now();
    EXPECT_THROW(w.transport.open({.name = "first", .bytes = kBytes}, in_time()), Error);
    EXPECT_LT(SteadyClock().now() - start, 10s);
    work_with(w, "second", survivors(w, victim()));
    return std::string();
  });
}

// Neighbours on a ring: each window has two readers, and nobody's peers are all the workers.
TEST_P(Subset, PeersDifferFromWorkerToWorker) {
  run_world(backend(), world(), [](Worker& w) {
    std::vector<WorkerId> ring{WorkerId{(w.rank + 1) % w.size}, WorkerId{(w.rank + w.size - 1) % w.size}};
    std::sort(ring.begin(), ring.end());
    work_with(w, "ring", ring);
    work_with(w, "again", ring);
    return std::string();
  });
}

}  // namespace
}  // namespace kith::comm::conformance
