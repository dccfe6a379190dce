// The reader's mirror of a writer elsewhere, fed by hand: order, giving up, and messages nobody should
// believe.
#include "kith/comm/ucx/mirror.h"

#include <cstring>

#include <gtest/gtest.h>

#include "kith/comm/protocol/reader.h"
#include "tests/support/pinned_memory.h"

namespace kith::comm::ucx {
namespace {

using protocol::Head;
using protocol::Word;
using State = protocol::ReaderPort::State;

constexpr int kSelf = 1;

struct Rig {
  explicit Rig(WindowMode mode = WindowMode::scheduled, int slots = 2)
      : mirror(Head::of({.name = "w", .bytes = 1000, .slots = slots, .mode = mode}, 3), kSelf, {pool}),
        port(mirror.block().control, kSelf) {}

  static Word word(std::uint64_t step) { return protocol::to_word({0, step}); }
  static DataHeader header(Word v, Word previous, std::uint64_t bytes = 100) {
    return {.envelope = {.kind = Kind::data, .word = v},
            .previous = previous,
            .whole_bytes = bytes,
            .part_bytes = bytes,
            .codec = 3};
  }
  // The whole of v comes at once, filled with a byte. False when it was not wanted.
  bool arrive(Word v, Word previous, int fill = 7) {
    const DataHeader message = header(v, previous);
    EXPECT_TRUE(mirror.plausible(message, 100));
    std::byte* place = mirror.place(message);
    if (place == nullptr) return false;
    std::memset(place, fill, 100);
    mirror.filled(v, 100);
    return true;
  }

  StagingPool pool;
  Mirror mirror;
  protocol::ReaderPort port;
};

TEST(Mirror, AVersionIsThereWhenAllOfItIs) {
  Rig rig;
  const Word v = Rig::word(0);
  DataHeader first = Rig::header(v, 0), second = first;
  second.stripe_offset = 60;
  std::byte* place = rig.mirror.place(first);
  ASSERT_NE(place, nullptr);
  EXPECT_EQ(rig.mirror.place(second), place + 60);
  EXPECT_FALSE(rig.mirror.filled(v, 40));
  EXPECT_EQ(rig.port.try_await(v), State::pending);
  EXPECT_TRUE(rig.mirror.filled(v, 60));
  EXPECT_EQ(rig.port.try_await(v), State::ready);
  EXPECT_EQ(rig.port.header(v).bytes, 100u);
  EXPECT_EQ(rig.port.header(v).codec, 3u);
  EXPECT_EQ(rig.mirror.block().staged[0], place);
}

// A later version that overtakes an earlier one must not make it look left out.
TEST(Mirror, VersionsAppearInTheOrderTheyWereSent) {
  Rig rig;
  const Word first = Rig::word(0), second = Rig::word(1);
  ASSERT_TRUE(rig.arrive(second, first));
  EXPECT_EQ(rig.port.try_await(first), State::pending);
  ASSERT_TRUE(rig.arrive(first, 0));
  EXPECT_EQ(rig.port.try_await(first), State::ready);
  EXPECT_EQ(rig.port.try_await(second), State::ready);
}

TEST(Mirror, WhatWasGivenUpIsDroppedAndItsMemoryUsedAgain) {
  Rig rig;
  const Word first = Rig::word(0), second = Rig::word(1), third = Rig::word(2);
  std::byte* place = rig.mirror.place(Rig::header(first, 0));
  rig.port.give_up(first);
  rig.mirror.filled(first, 100);
  EXPECT_EQ(rig.mirror.past(), first);
  rig.port.give_up(second);
  EXPECT_FALSE(rig.arrive(second, first)) << "nobody waits for it any more";
  ASSERT_TRUE(rig.arrive(third, second));
  EXPECT_EQ(rig.port.try_await(third), State::ready);
  EXPECT_EQ(rig.mirror.block().staged[0], place) << "from the pool";
}

TEST(Mirror, HeldVersionsStayWhereTheyAre) {
  Rig rig;
  const Word first = Rig::word(0), third = Rig::word(2);
  ASSERT_TRUE(rig.arrive(first, 0, 1));
  ASSERT_EQ(rig.port.try_await(first), State::ready);
  const std::byte* held = rig.mirror.block().staged[0];
  // A writer that breaks the rules sends into the slot that is held.
  ASSERT_TRUE(rig.arrive(third, first, 2));
  rig.mirror.collect();
  EXPECT_EQ(*held, std::byte{1});
  EXPECT_EQ(rig.port.try_await(third), State::pending);
  rig.port.release(first);
  rig.mirror.collect();
  EXPECT_EQ(rig.port.try_await(third), State::ready);
}

TEST(Mirror, LeftOutVersionsAreKnown) {
  Rig rig;
  rig.mirror.note_absent(Rig::word(4), Kind::missed);
  EXPECT_EQ(rig.port.try_await(Rig::word(4)), State::missed);
  rig.mirror.note_absent(Rig::word(5), Kind::unnamed);
  EXPECT_THROW(rig.port.try_await(Rig::word(5)), Bug) << "published for others";
}

TEST(Mirror, ImpossibleMessagesAreNotBelieved) {
  Rig rig;
  const auto doubted = [&](auto change, std::size_t bytes = 100) {
    DataHeader header = Rig::header(Rig::word(0), 0);
    change(header);
    return !rig.mirror.plausible(header, bytes);
  };
  EXPECT_FALSE(doubted([](DataHeader&) {}));
  EXPECT_TRUE(doubted([](DataHeader& h) { h.envelope.word = 0; }));
  EXPECT_TRUE(doubted([](DataHeader& h) { h.envelope.word = protocol::kEverything; }));
  EXPECT_TRUE(doubted([](DataHeader& h) { h.whole_bytes = h.part_bytes = 1001; }));
  EXPECT_TRUE(doubted([](DataHeader& h) { h.part_offset = 1; }));
  EXPECT_TRUE(doubted([](DataHeader& h) { h.part_offset = ~std::uint64_t{0}; }));
  EXPECT_TRUE(doubted([](DataHeader& h) { h.stripe_offset = 1; }));
  EXPECT_TRUE(doubted([](DataHeader& h) { h.stripe_offset = ~std::uint64_t{0} - 50; }));
  EXPECT_TRUE(doubted([](DataHeader&) {}, 101));
  // More than was announced, in the second stripe.
  rig.mirror.place(Rig::header(Rig::word(0), 0));
  rig.mirror.filled(Rig::word(0), 60);
  EXPECT_TRUE(doubted([](DataHeader&) {}, 60));
  // More versions than a writer can have under way.
  for (std::uint64_t step = 1; step < 4; ++step)
    rig.mirror.place(Rig::header(Rig::word(step), Rig::word(step - 1)));
  EXPECT_TRUE(doubted([](DataHeader& h) { h.envelope.word = Rig::word(9); }));
}

TEST(Mirror, InLatestModeAPinnedVersionOutlastsNewerOnes) {
  Rig rig(WindowMode::latest, 3);
  const Word first = Rig::word(0), later = Rig::word(3);
  ASSERT_TRUE(rig.arrive(first, 0, 1));
  ASSERT_EQ(rig.port.try_newest(0), first);
  const std::byte* pinned = rig.mirror.block().staged[0];
  ASSERT_TRUE(rig.arrive(later, first, 2));  // of the same slot
  EXPECT_EQ(*pinned, std::byte{1});
  EXPECT_FALSE(rig.mirror.has(later));
  rig.port.look_away(first);
  rig.mirror.collect();
  EXPECT_TRUE(rig.mirror.has(later));
  EXPECT_EQ(rig.port.try_newest(first), later);
}

// A buffer serves windows that pin and windows that do not, never both; its pin goes with it.
TEST(StagingPool, PinnedBuffersStayApart) {
  auto& pins = support::PinnedMemory::of_process();
  const PinMemory pin = [&](std::span<std::byte> bytes) { return pins.pin(bytes); };
  {
    StagingPool pool;
    Buffer buffer = pool.take(5000, pin);
    const std::byte* const place = buffer.data();
    EXPECT_TRUE(pins.holds(place, buffer.capacity()));
    pool.give(std::move(buffer));
    EXPECT_NE(pool.take(5000, {}).data(), place);
    EXPECT_EQ(pool.take(5000, pin).data(), place);
    EXPECT_EQ(pins.blocks(), 0u) << "nobody gave it back";
    pool.give(pool.take(5000, pin));
    EXPECT_EQ(pins.blocks(), 1u);
  }
  EXPECT_EQ(pins.blocks(), 0u);
}

}  // namespace
}  // namespace kith::comm::ucx
