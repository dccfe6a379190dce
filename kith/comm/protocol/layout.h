#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kith/comm/protocol/word.h"
#include "kith/comm/window.h"

namespace kith::comm::protocol {

// The memory behind one (writer, window): a control block, which readers write
// too, and a payload of slots, which only the writer writes. Every backend
// that maps memory shares exactly this layout; kProtocol counts its changes, and
// those of how workers meet.
//
//   Head | Board | Slot[slots] | named bits[slots][ceil(readers / 64)] | Part[slots][readers] |
//   who[readers] | Reader[readers]
//
// Readers are known by their index among the transport's workers; `who` lists those that may read, ascending,
// so that a block is as large as it has readers, however many workers there are.
inline constexpr std::uint64_t kMagic = 0x776f646e6977746bULL;  // "ktwindow"
inline constexpr std::uint32_t kProtocol = 5;
inline constexpr std::size_t kLine = 64;

// What both sides must agree on, but for `readers`, which each has its own of; constant after construction.
// Plain bytes, so that it can also travel in a message.
struct alignas(kLine) Head {
  std::uint64_t magic = kMagic;
  std::uint32_t protocol = kProtocol;
  std::uint32_t mode = 0;
  std::uint64_t bytes = 0;
  std::uint64_t shape_digest = 0;
  std::uint32_t slots = 0;
  std::uint32_t workers = 0;
  std::uint32_t readers = 0;

  // Everybody reads it.
  static Head of(const WindowOptions& options, int workers);
  // So many do.
  Head with_readers(std::size_t count) const;
};

// A word to sleep on. Whoever waits counts itself in `waiters`, reads `event`, checks
// its condition, and sleeps while `event` is unchanged; whoever changes the condition
// bumps `event` and wakes, but only if somebody waits. All accesses are sequentially
// consistent: either the waiter sees the change or the changer sees the waiter.
struct Signal {
  std::atomic<std::uint32_t> event{0};
  std::atomic<std::uint32_t> waiters{0};
};

struct Board {
  alignas(kLine) std::atomic<Word> newest{kNothing};  // the latest version published
  Signal published;                                   // readers wait here for `newest`
  alignas(kLine) Signal freed;                        // the writer waits here for the readers' words
};

// What lies in a slot. `version` is kNothing while the slot is being written.
struct alignas(kLine) Slot {
  std::atomic<Word> version{kNothing};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<double> weight{1};
  std::atomic<std::int64_t> published{0};  // nanoseconds of the publisher's clock; 0 where it did not tell
  std::atomic<std::uint32_t> codec{0};
};

// Scheduled mode: the part of a slot's payload that one named reader gets.
struct Part {
  std::atomic<std::uint64_t> offset{0};
  std::atomic<std::uint64_t> bytes{0};
};

// Written by one reader, read by the writer.
struct alignas(kLine) Reader {
  std::atomic<Word> past{kNothing};    // done with this version and, in scheduled mode, with all before
  std::atomic<Word> pinned{kNothing};  // latest mode: looking at this version now
};

static_assert(std::atomic<Word>::is_always_lock_free && std::atomic<double>::is_always_lock_free);

// A typed view of a control block. Does not own the memory; copies refer to the same words.
class Control {
 public:
  static std::size_t size_of(const Head& head);
  // Constructs the words. `readers`: who may read, ascending; empty: all workers.
  // REQUIRES: `memory` is kLine-aligned, size_of(head) long, and not yet shared; head.readers are given.
  static Control create(std::byte* memory, const Head& head, std::span<const int> readers = {});
  // Views what another worker created. REQUIRES: `head` was compared with the creator's.
  static Control view(std::byte* memory, const Head& head) { return {memory, head}; }

  const Head& head() const { return head_; }
  Board& board() const;
  int slot_of(Word word) const { return static_cast<int>(to_version(word).step % head_.slots); }
  Slot& slot(int index) const;
  Reader& reader(int index) const;

  void set_named(int slot, std::span<const int> readers) const;
  bool named(int slot, int reader) const;
  Part& part(int slot, int reader) const;

 private:
  Control(std::byte* memory, const Head& head) : memory_(memory), head_(head) {}
  std::atomic<std::uint64_t>* names(int slot) const;
  std::size_t name_words() const { return (head_.readers + 63) / 64; }
  // Of that worker, which is a reader.
  std::size_t place_of(int worker) const;

  std::byte* memory_;
  Head head_;
};

// Distance between the starts of two slots of the payload, and its whole size.
std::size_t slot_stride(const Head& head);
std::size_t payload_size(const Head& head);

// InputError naming both sides and the first thing that differs, when the two cannot share the window `name`.
void check_same(const std::string& name, WorkerId self, const Head& own, WorkerId peer, const Head& theirs);

}  // namespace kith::comm::protocol
