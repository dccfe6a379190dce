#include "kith/comm/protocol/reader.h"

#include <algorithm>

namespace kith::comm::protocol {

ReaderPort::State ReaderPort::try_await(Word v) {
  if (control_.board().newest.load() < v) return State::pending;
  const int slot = control_.slot_of(v);
  if (control_.slot(slot).version.load() != v) return State::missed;
  KITH_CHECK(control_.named(slot, self_), cat("version ", to_version(v), " was awaited by reader ", self_,
                                              ", whom its writer did not name"));
  std::lock_guard lock(mutex_);
  held_.push_back(v);
  return State::ready;
}

void ReaderPort::release(Word v) {
  std::lock_guard lock(mutex_);
  const auto found = std::find(held_.begin(), held_.end(), v);
  KITH_CHECK(found != held_.end(), "a version is released once, by who holds it");
  held_.erase(found);
  done_ = std::max(done_, v);
  advance();
}

void ReaderPort::give_up(Word v) {
  std::lock_guard lock(mutex_);
  done_ = std::max(done_, v);
  advance();
}

void ReaderPort::leave() {
  std::lock_guard lock(mutex_);
  held_.clear();
  done_ = kEverything;
  advance();
}

void ReaderPort::advance() {
  Word past = done_;
  for (Word held : held_)
    past = std::min(past, held - 1);
  std::atomic<Word>& word = control_.reader(self_).past;
  if (past > word.load(std::memory_order_relaxed)) word.store(past);
}

Word ReaderPort::aim(Word after) {
  const Word newest = control_.board().newest.load();
  if (newest <= after) return kNothing;
  control_.reader(self_).pinned.store(newest);
  return newest;
}

bool ReaderPort::confirm(Word word) {
  if (control_.slot(control_.slot_of(word)).version.load() == word) return true;
  unpin();
  return false;
}

std::optional<Word> ReaderPort::try_newest(Word after) {
  for (;;) {
    const Word word = aim(after);
    if (word == kNothing) return std::nullopt;
    if (confirm(word)) return word;
    // Withdrawn, and nothing newer to try: a publication will come, or a restoration; both are notified.
    if (control_.board().newest.load() == word) return std::nullopt;
  }
}

void ReaderPort::unpin() {
  control_.reader(self_).pinned.store(kNothing);
}

void ReaderPort::look_away(Word v) {
  std::atomic<Word>& past = control_.reader(self_).past;
  if (past.load(std::memory_order_relaxed) < v) past.store(v);
  unpin();
}

bool ReaderPort::pinned() const {
  return control_.reader(self_).pinned.load(std::memory_order_relaxed) != kNothing;
}

Header ReaderPort::header(Word v) const {
  const int index = control_.slot_of(v);
  const Slot& slot = control_.slot(index);
  const Part& part = control_.part(index, self_);
  const bool whole = control_.head().mode == static_cast<std::uint32_t>(WindowMode::latest);
  return {.version = to_version(v),
          .bytes = (whole ? slot.bytes : part.bytes).load(std::memory_order_relaxed),
          .offset = whole ? 0 : part.offset.load(std::memory_order_relaxed),
          .codec = slot.codec.load(std::memory_order_relaxed),
          .weight = slot.weight.load(std::memory_order_relaxed),
          .published = Clock::Time(Clock::Duration(slot.published.load(std::memory_order_relaxed))),
          .shape_digest = control_.head().shape_digest};
}

}  // namespace kith::comm::protocol
