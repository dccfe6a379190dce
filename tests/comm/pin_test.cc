// Windows whose memory a device copies from.
#include "tests/comm/conformance.h"
#include "tests/support/pinned_memory.h"

namespace kith::comm::conformance {
namespace {

using support::PinnedMemory;

class Pinning : public Rows {};
INSTANTIATE_TEST_SUITE_P(All, Pinning,
                         ::testing::Combine(::testing::ValuesIn(support::all_backends()),
                                            ::testing::Values(1, 2, 3)),
                         row_name);

TEST_P(Pinning, SlotsAndArrivalsLieInPinnedMemory) {
  const PinMemory pin = [](std::span<std::byte> bytes) { return PinnedMemory::of_process().pin(bytes); };
  run_world(backend(), world(), [&](Worker& w) {
    PinnedMemory& pins = PinnedMemory::of_process();
    {
      std::vector<std::unique_ptr<Window>> windows;
      for (const std::size_t bytes : {1, 5000, 300'000})  // pages are not shared among them
        windows.push_back(w.transport.open({.name = cat("w", bytes), .bytes = bytes, .pin = pin}, in_time()));
      const auto plain = w.transport.open({.name = "plain", .bytes = 5000}, in_time());
      EXPECT_FALSE(pins.holds(plain->slot(at(0)).data(), 5000));
      for (std::uint64_t t = 0; t < 6; ++t) {
        for (const auto& window : windows) {
          const std::size_t bytes = window->options().bytes;
          EXPECT_TRUE(pins.holds(window->slot(at(t)).data(), bytes));
          publish(w, *window, at(t), bytes, others(w));
        }
        for (const auto& window : windows) {
          for (const WorkerId peer : others(w)) {
            const Outcome outcome = window->await(peer, at(t), in_time());
            const auto* const arrival = std::get_if<Arrival>(&outcome);
            EXPECT_TRUE(arrival && pins.holds(arrival->data().data(), arrival->data().size()))
                << window->options().name;
          }
        }
      }
    }
    EXPECT_TRUE(backend() != "shm" || pins.blocks() == 0) << "pins go with their windows";
    return std::string();
  });
  EXPECT_EQ(PinnedMemory::of_process().blocks(), 0u);
}

}  // namespace
}  // namespace kith::comm::conformance
