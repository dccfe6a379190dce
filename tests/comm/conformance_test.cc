// What every backend must do in every world and at every size.
#include "tests/comm/conformance.h"

namespace kith::comm::conformance {
namespace {

class Conformance : public Grid {};
INSTANTIATE_TEST_SUITE_P(All, Conformance,
                         ::testing::Combine(::testing::Values("inproc", "shm"),
                                            ::testing::Values(1, 2, 3, 4, 8),
                                            ::testing::Values(1, 4096, 1'000'003, 25'000'000)),
                         cell_name);
INSTANTIATE_TEST_SUITE_P(Plain, Conformance,
                         ::testing::Combine(::testing::Values(std::string(support::kPlainShm)),
                                            ::testing::Values(1, 2, 3, 4, 8),
                                            ::testing::Values(1, 4096, 1'000'003)),
                         cell_name);
// The long ones in the small worlds only: every byte goes through the kernel twice.
INSTANTIATE_TEST_SUITE_P(Network, Conformance,
                         ::testing::Combine(::testing::ValuesIn(support::network_backends()),
                                            ::testing::Values(1, 2, 3, 4, 8),
                                            ::testing::Values(1, 4096, 1'000'003)),
                         cell_name);
INSTANTIATE_TEST_SUITE_P(NetworkLong, Conformance,
                         ::testing::Combine(::testing::ValuesIn(support::network_backends()),
                                            ::testing::Values(2, 3), ::testing::Values(25'000'000)),
                         cell_name);

// Everybody reads everybody (a ring where that would take long), in order, over two views.
TEST_P(Conformance, ContentsOrderAndVersions) {
  run_world(backend(), world(), [this](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = bytes(), .shape_digest = 99}, in_time());
    std::vector<WorkerId> readers = others(w), writers = others(w);
    if (bytes() > 2'000'000 && w.size > 2) {
      readers = {WorkerId{(w.rank + 1) % w.size}};
      writers = {WorkerId{(w.rank + w.size - 1) % w.size}};
    }
    for (std::uint64_t t = 0; t < rounds(); ++t)
      round(w, *window, at(t), readers, writers);
    for (std::uint64_t t = 0; t < rounds() / 2; ++t)
      round(w, *window, at(t, 1), readers, writers);
    const Ledger ledger = w.transport.ledger();
    EXPECT_EQ(ledger.size(), static_cast<std::size_t>(w.size - 1));
    const std::uint64_t versions = rounds() + rounds() / 2;
    for (WorkerId peer : writers) {
      EXPECT_EQ(ledger.at(peer).arrivals, versions);
      EXPECT_EQ(ledger.at(peer).bytes_read, versions * bytes());
    }
    for (WorkerId peer : readers) {
      EXPECT_EQ(ledger.at(peer).versions_named, versions);
      EXPECT_EQ(ledger.at(peer).bytes_offered, versions * bytes());
    }
    return std::string();
  });
}

// Every reader gets a part of its own: the parts of a version lie one after the other, and the last is empty.
TEST_P(Conformance, ReadersOfParts) {
  run_world(backend(), world(), [this](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = bytes()}, in_time());
    const std::size_t part = bytes() / static_cast<std::size_t>(w.size);
    const auto range_of = [&](int reader) {
      return Range{static_cast<std::size_t>(reader) * part, reader == w.size - 1 ? 0 : part};
    };
    const std::uint64_t last = std::min<std::uint64_t>(rounds(), 4);
    for (std::uint64_t t = 0; t < last; ++t) {
      const auto begun = window->begin(at(t), in_time());
      EXPECT_TRUE(std::holds_alternative<std::span<std::byte>>(begun));
      const std::span<std::byte> slot = window->slot(at(t));
      PublishOptions options{.bytes = bytes(), .readers = others(w)};
      for (WorkerId reader : options.readers) {
        options.ranges.push_back(range_of(reader.value));
        const Range& range = options.ranges.back();
        std::memset(slot.data() + range.offset,
                    stamp(w.rank, at(t), 1000 + static_cast<std::size_t>(reader.value)), range.bytes);
      }
      window->publish(at(t), options);
      const Range mine = range_of(w.rank);
      for (WorkerId peer : others(w)) {
        const Outcome outcome = window->await(peer, at(t), in_time());
        const Arrival* arrival = std::get_if<Arrival>(&outcome);
        EXPECT_NE(arrival, nullptr);
        if (arrival == nullptr) continue;
        EXPECT_EQ(arrival->header().offset, mine.offset);
        EXPECT_EQ(arrival->header().bytes, mine.bytes);
        EXPECT_EQ(arrival->data().size(), mine.bytes);
        const auto expected =
            static_cast<std::byte>(stamp(peer.value, at(t), 1000 + static_cast<std::size_t>(w.rank)));
        EXPECT_TRUE(std::all_of(arrival->data().begin(), arrival->data().end(),
                                [&](std::byte b) { return b == expected; }));
      }
    }
    const Ledger ledger = w.transport.ledger();
    for (WorkerId peer : others(w)) {
      EXPECT_EQ(ledger.at(peer).bytes_offered, last * range_of(peer.value).bytes);
      EXPECT_EQ(ledger.at(peer).bytes_read, last * range_of(w.rank).bytes);
    }
    return std::string();
  });
}

// Each step has other readers, and who reads whom is not symmetric: worker r reads r + 1 + (t mod (n - 1)).
TEST_P(Conformance, TimeVaryingDirectedReaders) {
  run_world(backend(), world(), [this](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = bytes()}, in_time());
    for (std::uint64_t t = 0; t < rounds(); ++t) {
      if (w.size == 1) {
        publish(w, *window, at(t), bytes(), {});
        continue;
      }
      const int hop = 1 + static_cast<int>(t) % (w.size - 1);
      const WorkerId reader{(w.rank - hop + w.size) % w.size}, writer{(w.rank + hop) % w.size};
      round(w, *window, at(t), {reader}, {writer});
    }
    return std::string();
  });
}

// Worker 1 holds every version for a while; the writer may be
// ahead by its slots only, and no byte changes meanwhile.
TEST_P(Conformance, SlotIsNotReusedUnderASlowReader) {
  run_world(backend(), world(), [this](Worker& w) {
    const auto window = w.transport.open({.name = "w", .bytes = bytes()}, in_time());
    const std::uint64_t last = std::min<std::uint64_t>(rounds(), 8);
    if (w.rank == 0) {
      std::vector<WorkerId> readers;
      if (w.size > 1) readers.push_back(WorkerId{1});
      for (std::uint64_t t = 0; t < last; ++t)
        publish(w, *window, at(t), bytes(), readers);
    }
    for (std::uint64_t t = 0; w.rank == 1 && t < last; ++t) {
      const Outcome outcome = window->await(WorkerId{0}, at(t), in_time());
      const Arrival* arrival = std::get_if<Arrival>(&outcome);
      EXPECT_NE(arrival, nullptr);
      if (arrival == nullptr) break;
      std::this_thread::sleep_for(3ms);
      EXPECT_TRUE(holds(arrival->data(), 0, at(t)));
    }
    return std::string();
  });
}

TEST_P(Conformance, LatestModePinsTheNewest) {
  run_world(backend(), world(), [this](Worker& w) {
    const auto window =
        w.transport.open({.name = "w", .bytes = bytes(), .slots = 3, .mode = WindowMode::latest}, in_time());
    const std::uint64_t last = rounds() * 2;
    std::optional<Version> seen;
    std::thread writing([&] {
      for (std::uint64_t t = 0; t <= last; ++t)
        publish(w, *window, at(t), bytes(), {});
    });
    for (WorkerId peer : others(w)) {
      if (bytes() > 2'000'000 && peer.value != (w.rank + 1) % w.size) continue;
      seen.reset();
      while (seen != at(last)) {
        const Outcome outcome = window->newest(peer, seen, in_time());
        const Arrival* arrival = std::get_if<Arrival>(&outcome);
        EXPECT_NE(arrival, nullptr) << w.id() << " reads " << peer << " after " << seen.value_or(Version{});
        if (arrival == nullptr) break;
        const Version version = arrival->header().version;
        EXPECT_TRUE(!seen || *seen < version);
        EXPECT_TRUE(holds(arrival->data(), peer.value, version)) << version;
        seen = version;
      }
    }
    writing.join();
    together(w, "read");
    return std::string();
  });
}

}  // namespace
}  // namespace kith::comm::conformance
