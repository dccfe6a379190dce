#include "kith/comm/protocol/writer.h"

#include <algorithm>
#include <utility>

namespace kith::comm::protocol {

Writer::Writer(const Control& control, std::vector<int> peers)
    : control_(control), peers_(std::move(peers)), readers_(control.head().slots) {}

Word Writer::withdraw(int slot) {
  return control_.slot(slot).version.exchange(kNothing);
}

void Writer::restore(int slot, Word held) {
  control_.slot(slot).version.store(held);
}

std::optional<int> Writer::holder(int slot, Word held, const LostWorkers& gone) const {
  if (held == kNothing) return std::nullopt;
  for (int reader : scheduled() ? readers_[static_cast<std::size_t>(slot)] : peers_) {
    const Reader& words = control_.reader(reader);
    const bool holds = scheduled() ? words.past.load() < held : words.pinned.load() == held;
    if (holds && !gone.lost(reader)) return reader;
  }
  return std::nullopt;
}

std::optional<int> Writer::try_begin(Word v, const LostWorkers& gone) {
  KITH_CHECK_LT(control_.board().newest.load(std::memory_order_relaxed), v, "versions of a window must rise");
  if (begun_ == v) return std::nullopt;
  const int slot = control_.slot_of(v);
  if (const auto reader = holder(slot, control_.slot(slot).version.load(), gone)) return reader;
  // A named reader that is past a version never comes back to
  // it; a pin may appear until the version is withdrawn.
  const Word held = withdraw(slot);
  const auto reader = scheduled() ? std::nullopt : holder(slot, held, gone);
  if (reader) {
    restore(slot, held);
  } else {
    take(v);
  }
  return reader;
}

void Writer::publish(Word v, const PublishOptions& options, std::span<const int> readers) {
  KITH_CHECK_EQ(begun_, v, "publish needs a begin of the same version");
  KITH_CHECK_LE(options.bytes, control_.head().bytes, "a payload must fit its slot");
  const int index = control_.slot_of(v);
  if (scheduled()) {
    for (int reader : readers) {
      KITH_CHECK(std::find(peers_.begin(), peers_.end(), reader) != peers_.end(),
                 "a named reader must be a peer of the window");
    }
    KITH_CHECK(options.ranges.empty() || options.ranges.size() == readers.size(),
               "ranges are given for every reader or for none");
    for (std::size_t i = 0; i < readers.size(); ++i) {
      const Range range = options.ranges.empty() ? Range{0, options.bytes} : options.ranges[i];
      KITH_CHECK_LE(range.offset + range.bytes, options.bytes, "a reader's part lies in the payload");
      Part& part = control_.part(index, readers[i]);
      part.offset.store(range.offset, std::memory_order_relaxed);
      part.bytes.store(range.bytes, std::memory_order_relaxed);
    }
    control_.set_named(index, readers);
    readers_[static_cast<std::size_t>(index)].assign(readers.begin(), readers.end());
  }
  Slot& slot = control_.slot(index);
  slot.bytes.store(options.bytes, std::memory_order_relaxed);
  slot.codec.store(options.codec, std::memory_order_relaxed);
  slot.weight.store(options.weight, std::memory_order_relaxed);
  slot.published.store(options.time.time_since_epoch().count(), std::memory_order_relaxed);
  slot.version.store(v);
  control_.board().newest.store(v);
  begun_ = kNothing;
}

}  // namespace kith::comm::protocol
