#include <memory>

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/comm/protocol/reader.h"
#include "kith/comm/protocol/writer.h"
#include "tests/comm/protocol_model.h"

namespace kith::comm::protocol {
namespace {

Word step(std::uint64_t s) {
  return to_word({0, s});
}

struct NobodyLost final : LostWorkers {
  bool lost(int) const override { return false; }
};

// Writer 0 and readers 1 and 2 over one block.
struct Trio {
  explicit Trio(WindowMode mode, int slots)
      : block(Head::of({.name = "w", .bytes = 8, .slots = slots, .mode = mode}, 3), 1),
        writer(block.control, {1, 2}),
        one(block.control, 1),
        two(block.control, 2) {}
  void publish(Word v, std::vector<int> readers) {
    ASSERT_EQ(writer.try_begin(v, nobody), std::nullopt);
    writer.publish(v, {.bytes = 8}, readers);
  }
  model::Block block;
  Writer writer;
  ReaderPort one, two;
  NobodyLost nobody;
};

TEST(Word, IsMonotoneAndInvertible) {
  const std::vector<Version> rising{{0, 0}, {0, 1}, {0, 1u << 31},      {1, 0},
                                    {1, 5}, {7, 0}, {(1u << 20) - 1, 3}};
  for (std::size_t i = 0; i < rising.size(); ++i) {
    EXPECT_GT(to_word(rising[i]), kNothing);
    EXPECT_LT(to_word(rising[i]), kEverything);
    EXPECT_EQ(to_version(to_word(rising[i])), rising[i]);
    if (i == 0) continue;
    EXPECT_LT(to_word(rising[i - 1]), to_word(rising[i]));
  }
  EXPECT_THROW(to_word({1u << 20, 0}), Bug);
  EXPECT_THROW(to_word({0, std::uint64_t{1} << 44}), Bug);
}

TEST(Layout, BlocksOfManyWorkersDoNotOverlap) {
  for (int workers : {1, 2, 63, 64, 65, 200}) {
    const Head head = Head::of({.name = "w", .bytes = 1, .slots = 5}, workers);
    const model::Block block(head, 1);
    for (int slot = 0; slot < 5; ++slot) {
      const int last = workers - 1;
      block.control.set_named(slot, std::vector<int>{slot % workers, last});
      block.control.slot(slot).version.store(static_cast<Word>(slot) + 100);
    }
    for (int i = 0; i < workers; ++i)
      block.control.reader(i).past.store(static_cast<Word>(i) + 1000);
    for (int slot = 0; slot < 5; ++slot) {
      EXPECT_EQ(block.control.slot(slot).version.load(), static_cast<Word>(slot) + 100);
      for (int i = 0; i < workers; ++i) {
        EXPECT_EQ(block.control.named(slot, i), i == slot % workers || i == workers - 1);
      }
    }
    EXPECT_EQ(block.control.board().newest.load(), kNothing);
    const auto* end = reinterpret_cast<const std::byte*>(&block.control.reader(workers - 1) + 1);
    EXPECT_EQ(static_cast<std::size_t>(end - model::Block::aligned(block.memory.get())),
              Control::size_of(head));
  }
}

TEST(Layout, ABlockIsAsLargeAsItHasReaders) {
  const Head few = Head::of({.name = "w", .bytes = 1}, 3);
  const Head head = Head::of({.name = "w", .bytes = 1}, 4096).with_readers(3);
  ASSERT_EQ(Control::size_of(head), Control::size_of(few));
  const std::vector<int> who{5, 70, 4000};
  std::vector<std::byte> memory(Control::size_of(head) + kLine);
  std::byte* const first = model::Block::aligned(memory.data());
  const Control control = Control::create(first, head, who);
  control.set_named(1, std::vector<int>{5, 4000});
  for (const int worker : who) {
    control.reader(worker).past.store(static_cast<Word>(worker));
    control.part(1, worker).bytes.store(static_cast<std::uint64_t>(worker) + 1);
  }
  const Control theirs = Control::view(first, head);
  for (const int worker : who) {
    EXPECT_EQ(theirs.reader(worker).past.load(), static_cast<Word>(worker));
    EXPECT_EQ(theirs.part(1, worker).bytes.load(), static_cast<std::uint64_t>(worker) + 1);
    EXPECT_EQ(theirs.named(1, worker), worker != 70);
    EXPECT_FALSE(theirs.named(0, worker));
  }
  EXPECT_THROW(theirs.reader(6), Bug);
  EXPECT_THROW(Control::create(first, head), Bug);
}

TEST(Layout, MismatchNamesBothSides) {
  const Head own = Head::of({.name = "w", .bytes = 8, .slots = 2}, 3);
  const auto complaint = [&](auto change) {
    Head theirs = own;
    change(theirs);
    try {
      check_same("bucket4", WorkerId{3}, own, WorkerId{5}, theirs);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("no complaint");
  };
  EXPECT_EQ(complaint([](Head&) {}), "no complaint");
  EXPECT_EQ(complaint([](Head& h) { h.bytes = 16; }),
            "window 'bucket4': worker 3 has bytes per slot 8, worker 5 has 16 (every worker must open it "
            "alike: compare "
            "their configurations)");
  EXPECT_EQ(complaint([](Head& h) { h.protocol = 9; }),
            cat("window 'bucket4': worker 3 has protocol version ", kProtocol,
                ", worker 5 has 9 (run the same build of kith on every worker)"));
  for (const std::string& text :
       {complaint([](Head& h) { h.magic = 1; }), complaint([](Head& h) { h.slots = 3; }),
        complaint([](Head& h) { h.mode = 1; }), complaint([](Head& h) { h.shape_digest = 4; }),
        complaint([](Head& h) { h.workers = 9; })}) {
    EXPECT_NE(text.find("worker 3 has"), std::string::npos) << text;
    EXPECT_NE(text.find("worker 5 has"), std::string::npos) << text;
  }
}

TEST(Scheduled, TheWordStaysBehindWhatIsHeld) {
  Trio trio(WindowMode::scheduled, 4);
  for (std::uint64_t s : {0, 1, 2})
    trio.publish(step(s), {1});
  for (std::uint64_t s : {0, 1, 2})
    EXPECT_EQ(trio.one.try_await(step(s)), ReaderPort::State::ready);
  const auto past = [&] { return trio.block.control.reader(1).past.load(); };
  trio.one.release(step(2));
  EXPECT_LT(past(), step(0));
  trio.one.release(step(0));
  EXPECT_EQ(past(), step(0));
  trio.one.release(step(1));
  EXPECT_EQ(past(), step(2));
  EXPECT_THROW(trio.one.release(step(1)), Bug);
}

TEST(Scheduled, OnlyNamedReadersHoldASlot) {
  Trio trio(WindowMode::scheduled, 2);
  trio.publish(step(0), {2});
  trio.publish(step(1), {});
  EXPECT_EQ(trio.writer.try_begin(step(2), trio.nobody), 2);
  trio.two.give_up(step(0));
  EXPECT_EQ(trio.writer.try_begin(step(2), trio.nobody), std::nullopt);
}

TEST(Scheduled, AVersionThatWasLeftOutIsMissed) {
  Trio trio(WindowMode::scheduled, 2);
  trio.publish(step(0), {1});
  EXPECT_EQ(trio.one.try_await(step(1)), ReaderPort::State::pending);
  trio.publish(step(3), {1});
  EXPECT_EQ(trio.one.try_await(step(1)), ReaderPort::State::missed);
  EXPECT_EQ(trio.one.try_await(step(3)), ReaderPort::State::ready);
}

// A writer that dies between its two stores has not published.
TEST(Scheduled, AHalfPublicationIsInvisible) {
  Trio trio(WindowMode::scheduled, 2);
  trio.publish(step(0), {1});
  ASSERT_EQ(trio.writer.try_begin(step(1), trio.nobody), std::nullopt);
  trio.block.control.slot(1).version.store(step(1));
  EXPECT_EQ(trio.one.try_await(step(1)), ReaderPort::State::pending);
}

TEST(Latest, APinBetweenWithdrawAndLookIsSeen) {
  Trio trio(WindowMode::latest, 3);
  trio.publish(step(0), {});
  const int slot = trio.block.control.slot_of(step(0));
  const Word aimed = trio.one.aim(kNothing);
  ASSERT_EQ(aimed, step(0));
  const Word held = trio.writer.withdraw(slot);
  EXPECT_EQ(trio.writer.holder(slot, held, trio.nobody), 1) << "the pin was first: the writer must see it";
  trio.writer.restore(slot, held);
  EXPECT_TRUE(trio.one.confirm(aimed));
}

TEST(Latest, APinAfterWithdrawFails) {
  Trio trio(WindowMode::latest, 3);
  trio.publish(step(0), {});
  const int slot = trio.block.control.slot_of(step(0));
  const Word held = trio.writer.withdraw(slot);
  EXPECT_EQ(trio.writer.holder(slot, held, trio.nobody), std::nullopt);
  const Word aimed = trio.one.aim(kNothing);
  EXPECT_FALSE(trio.one.confirm(aimed)) << "the withdrawal was first: the reader must see it";
  EXPECT_FALSE(trio.one.pinned());
  EXPECT_EQ(trio.two.try_newest(kNothing), std::nullopt) << "and does not spin";
}

}  // namespace
}  // namespace kith::comm::protocol
