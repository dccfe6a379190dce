#include "kith/comm/ucx/mirror.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kith/comm/mapped/futex.h"

namespace kith::comm::ucx {

using protocol::Control;
using protocol::Head;
using protocol::kNothing;
using protocol::Slot;
using protocol::Word;

namespace {

// Control words need kLine alignment.
std::byte* aligned(std::byte* p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  return p + (protocol::kLine - address % protocol::kLine) % protocol::kLine;
}

}  // namespace

Mirror::Shared::Shared(const Head& head, int self)
    : words(std::make_unique<std::byte[]>(Control::size_of(head) + protocol::kLine)),
      control(Control::create(aligned(words.get()), head, std::span(&self, 1))),
      buffers(head.slots),
      staged(head.slots, nullptr) {}

Mirror::Mirror(const Head& head, int self, Staging staging)
    : self_(self),
      staging_(std::move(staging)),
      shared_(std::make_shared<Shared>(head.with_readers(1), self)) {}

mapped::Block Mirror::block() const {
  return {shared_->control, nullptr, shared_, shared_->staged.data()};
}

bool Mirror::latest() const {
  return shared_->control.head().mode == static_cast<std::uint32_t>(WindowMode::latest);
}

bool Mirror::unwanted(Word v) const {
  return latest() ? past() == protocol::kEverything : v <= past();
}

bool Mirror::plausible(const DataHeader& header, std::size_t stripe_bytes) const {
  const Head& head = shared_->control.head();
  const auto within = [](std::uint64_t offset, std::uint64_t bytes, std::uint64_t limit) {
    return offset <= limit && bytes <= limit - offset;
  };
  if (header.envelope.word == kNothing || header.envelope.word == protocol::kEverything) return false;
  if (!within(0, header.whole_bytes, head.bytes)) return false;
  if (!within(header.part_offset, header.part_bytes, header.whole_bytes)) return false;
  if (!within(header.stripe_offset, stripe_bytes, header.part_bytes)) return false;
  for (const Coming& coming : coming_) {
    if (coming.header.envelope.word == header.envelope.word)
      return coming.header.part_bytes == header.part_bytes && stripe_bytes <= coming.missing;
  }
  // Each slot's version, and one that was given up and has not come whole when the slot's next begins to
  // come.
  return coming_.size() < 2 * head.slots;
}

std::byte* Mirror::place(const DataHeader& header) {
  const Word v = header.envelope.word;
  for (const Coming& coming : coming_) {
    if (coming.header.envelope.word == v) return coming.buffer.data() + header.stripe_offset;
  }
  if (unwanted(v)) {
    last_ = std::max(last_, v);
    publish_complete();
    return nullptr;
  }
  coming_.push_back({header, staging_.take(header.part_bytes), header.part_bytes});
  return coming_.back().buffer.data() + header.stripe_offset;
}

bool Mirror::filled(Word v, std::size_t bytes) {
  bool whole = false;
  for (Coming& coming : coming_) {
    if (coming.header.envelope.word != v) continue;
    coming.missing -= bytes;
    whole = coming.missing == 0;
  }
  publish_complete();
  return whole;
}

void Mirror::publish_complete() {
  for (bool found = true; found;) {
    found = false;
    for (std::size_t i = 0; i < coming_.size(); ++i) {
      Coming& coming = coming_[i];
      const Word v = coming.header.envelope.word;
      if (coming.missing > 0 || coming.header.previous > last_) continue;
      if (unwanted(v)) {
        staging_.give(std::move(coming.buffer));
      } else if (vacate(shared_->control.slot_of(v))) {
        show(coming);
      } else {
        continue;  // collect() tries again
      }
      last_ = std::max(last_, v);
      coming_.erase(coming_.begin() + static_cast<std::ptrdiff_t>(i));
      found = true;
      break;
    }
  }
}

void Mirror::show(Coming& coming) {
  const Control& control = shared_->control;
  const DataHeader& header = coming.header;
  const Word v = header.envelope.word;
  const int index = control.slot_of(v);
  shared_->staged[static_cast<std::size_t>(index)] = coming.buffer.data();
  shared_->buffers[static_cast<std::size_t>(index)] = std::move(coming.buffer);
  control.set_named(index, std::array{self_});
  protocol::Part& part = control.part(index, self_);
  part.offset.store(header.part_offset, std::memory_order_relaxed);
  part.bytes.store(header.part_bytes, std::memory_order_relaxed);
  Slot& slot = control.slot(index);
  slot.bytes.store(header.whole_bytes, std::memory_order_relaxed);
  slot.codec.store(header.codec, std::memory_order_relaxed);
  slot.weight.store(header.weight, std::memory_order_relaxed);
  slot.published.store(header.published, std::memory_order_relaxed);
  slot.version.store(v);
  raise_newest(v);
}

void Mirror::raise_newest(Word v) {
  std::atomic<Word>& newest = shared_->control.board().newest;
  if (newest.load(std::memory_order_relaxed) < v) newest.store(v);
  mapped::notify(shared_->control.board().published);
}

void Mirror::note_absent(Word v, Kind verdict) {
  const Control& control = shared_->control;
  const int index = control.slot_of(v);
  const bool coming = std::any_of(coming_.begin(), coming_.end(),
                                  [&](const Coming& c) { return c.header.envelope.word == v; });
  if (v <= past() || coming || control.slot(index).version.load() == v) return;
  if (verdict == Kind::unnamed && vacate(index)) {
    control.set_named(index, {});
    control.slot(index).version.store(v);
  }
  raise_newest(v);
}

bool Mirror::vacate(int index) {
  const Control& control = shared_->control;
  Buffer& buffer = shared_->buffers[static_cast<std::size_t>(index)];
  if (!buffer) return true;
  const Word held = control.slot(index).version.load();
  if (latest()) {
    // As a writer does: withdraw first, look at the pin afterwards.
    control.slot(index).version.store(kNothing);
    if (reader().pinned.load() == held) {
      control.slot(index).version.store(held);
      mapped::notify(control.board().published);
      return false;
    }
  } else {
    if (held > past()) return false;
    control.slot(index).version.store(kNothing);
  }
  staging_.give(std::move(buffer));
  buffer = Buffer();
  return true;
}

void Mirror::collect() {
  for (int slot = 0; slot < static_cast<int>(shared_->buffers.size()); ++slot) {
    if (shared_->control.slot(slot).version.load() <= past()) vacate(slot);
  }
  publish_complete();
}

bool Mirror::has(Word v) const {
  const Word newest = shared_->control.board().newest.load();
  return newest >= v && shared_->control.slot(shared_->control.slot_of(newest)).version.load() == newest;
}

}  // namespace kith::comm::ucx
