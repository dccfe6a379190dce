#include "kith/comm/protocol/layout.h"

#include <algorithm>
#include <new>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::comm::protocol {
namespace {

constexpr std::size_t round_up(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

struct Offsets {
  explicit Offsets(const Head& head)
      : board(sizeof(Head)),
        slots(board + sizeof(Board)),
        names(slots + head.slots * sizeof(Slot)),
        parts(names + head.slots * ((head.readers + 63) / 64) * sizeof(std::uint64_t)),
        who(parts + std::size_t{head.slots} * head.readers * sizeof(Part)),
        readers(round_up(who + head.readers * sizeof(std::uint32_t), kLine)),
        end(readers + head.readers * sizeof(Reader)) {}
  std::size_t board, slots, names, parts, who, readers, end;
};

std::string mode_name(std::uint32_t mode) {
  return mode == static_cast<std::uint32_t>(WindowMode::scheduled) ? "scheduled" : "latest";
}

}  // namespace

Head Head::of(const WindowOptions& options, int workers) {
  Head head;
  head.mode = static_cast<std::uint32_t>(options.mode);
  head.bytes = options.bytes;
  head.shape_digest = options.shape_digest;
  head.slots = static_cast<std::uint32_t>(options.slots);
  head.workers = head.readers = static_cast<std::uint32_t>(workers);
  return head;
}

Head Head::with_readers(std::size_t count) const {
  Head head = *this;
  head.readers = static_cast<std::uint32_t>(count);
  return head;
}

std::size_t Control::size_of(const Head& head) {
  return Offsets(head).end;
}

Control Control::create(std::byte* memory, const Head& head, std::span<const int> readers) {
  const bool all = readers.empty() && head.readers == head.workers;
  KITH_CHECK(all || readers.size() == head.readers, "the readers of a block");
  const Offsets at(head);
  new (memory) Head(head);
  new (memory + at.board) Board;
  for (std::size_t i = 0; i < head.slots; ++i)
    new (memory + at.slots + i * sizeof(Slot)) Slot;
  for (std::size_t i = at.names; i < at.parts; i += sizeof(std::uint64_t)) {
    new (memory + i) std::atomic<std::uint64_t>(0);
  }
  for (std::size_t i = 0; i < std::size_t{head.slots} * head.readers; ++i)
    new (memory + at.parts + i * sizeof(Part)) Part;
  for (std::size_t i = 0; i < head.readers; ++i) {
    new (memory + at.who + i * sizeof(std::uint32_t))
        std::uint32_t(static_cast<std::uint32_t>(all ? static_cast<int>(i) : readers[i]));
    new (memory + at.readers + i * sizeof(Reader)) Reader;
  }
  return {memory, head};
}

Board& Control::board() const {
  return *reinterpret_cast<Board*>(memory_ + Offsets(head_).board);
}

Slot& Control::slot(int index) const {
  return reinterpret_cast<Slot*>(memory_ + Offsets(head_).slots)[index];
}

std::size_t Control::place_of(int worker) const {
  const auto* const first = reinterpret_cast<const std::uint32_t*>(memory_ + Offsets(head_).who);
  const auto* const end = first + head_.readers;
  const auto* const found = std::lower_bound(first, end, static_cast<std::uint32_t>(worker));
  KITH_CHECK(found != end && *found == static_cast<std::uint32_t>(worker),
             cat("worker ", worker, " by index reads the block"));
  return static_cast<std::size_t>(found - first);
}

Reader& Control::reader(int index) const {
  return reinterpret_cast<Reader*>(memory_ + Offsets(head_).readers)[place_of(index)];
}

std::atomic<std::uint64_t>* Control::names(int slot) const {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(memory_ + Offsets(head_).names) +
         static_cast<std::size_t>(slot) * name_words();
}

void Control::set_named(int slot, std::span<const int> readers) const {
  std::atomic<std::uint64_t>* words = names(slot);
  for (std::size_t i = 0; i < name_words(); ++i)
    words[i].store(0, std::memory_order_relaxed);
  for (int reader : readers) {
    const std::size_t place = place_of(reader);
    words[place / 64].fetch_or(std::uint64_t{1} << (place % 64), std::memory_order_relaxed);
  }
}

bool Control::named(int slot, int reader) const {
  const std::size_t place = place_of(reader);
  return (names(slot)[place / 64].load(std::memory_order_relaxed) >> (place % 64)) & 1;
}

Part& Control::part(int slot, int reader) const {
  const std::size_t index = static_cast<std::size_t>(slot) * head_.readers + place_of(reader);
  return reinterpret_cast<Part*>(memory_ + Offsets(head_).parts)[index];
}

std::size_t slot_stride(const Head& head) {
  return round_up(static_cast<std::size_t>(head.bytes == 0 ? 1 : head.bytes), kLine);
}

std::size_t payload_size(const Head& head) {
  return slot_stride(head) * head.slots;
}

void check_same(const std::string& name, WorkerId self, const Head& own, WorkerId peer, const Head& theirs) {
  const auto differ = [&](std::string_view what, const auto& mine, const auto& other,
                          std::string_view remedy) {
    if (mine == other) return;
    throw InputError(cat(self, " has ", what, " ", mine, ", ", peer, " has ", other),
                     cat("window '", name, "'"), remedy);
  };
  const std::string_view build = "run the same build of kith on every worker";
  const std::string_view setup = "every worker must open it alike: compare their configurations";
  differ("magic", own.magic, theirs.magic, build);
  differ("protocol version", own.protocol, theirs.protocol, build);
  differ("a world of", own.workers, theirs.workers, setup);
  differ("bytes per slot", own.bytes, theirs.bytes, setup);
  differ("slots", own.slots, theirs.slots, setup);
  differ("mode", mode_name(own.mode), mode_name(theirs.mode), setup);
  differ("shape digest", own.shape_digest, theirs.shape_digest, setup);
}

}  // namespace kith::comm::protocol
