#include "kith/comm/ucx/exchange.h"

#include <algorithm>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/text.h"
#include "kith/comm/mapped/futex.h"

namespace kith::comm::ucx {

using protocol::Control;
using protocol::kNothing;
using protocol::Word;

namespace {

bool latest(const NetWindow& window) {
  return window.own.control.head().mode == static_cast<std::uint32_t>(WindowMode::latest);
}

}  // namespace

void Exchange::add(std::shared_ptr<NetWindow> window) {
  windows_.emplace(window->number, std::move(window));
}

void Exchange::bind(const std::shared_ptr<NetWindow>& window, int peer, std::uint64_t number) {
  Side& side = window->sides.at(peer);
  side.number = number;
  answer(window, peer);
}

void Exchange::close(const std::shared_ptr<NetWindow>& window) {
  window->closed = true;
  for (auto& [peer, side] : window->sides) {
    if (side.number == 0 || std::exchange(side.told, protocol::kEverything) == protocol::kEverything)
      continue;
    post_.tell(peer, {.kind = Kind::past, .window = side.number, .word = protocol::kEverything});
  }
  drop_if_done(window);
}

void Exchange::drop_if_done(const std::shared_ptr<NetWindow>& window) {
  if (!window->closed) return;
  for (const auto& [peer, side] : window->sides) {
    const auto jobs = jobs_.find(peer);
    const bool waits =
        jobs != jobs_.end() && std::any_of(jobs->second.begin(), jobs->second.end(),
                                           [&](const Job& job) { return job.window == window; });
    if (waits || !side.in_flight.empty()) return;
  }
  windows_.erase(window->number);
}

// --- this worker writes ---

void Exchange::published(const std::shared_ptr<NetWindow>& window, Word v, std::span<const int> readers) {
  for (int reader : readers) {
    if (window->sides.contains(reader) && !context_.liveness().lost(reader)) {
      jobs_[reader].push_back({window, v});
      pump(reader);
    }
  }
  if (!window->curious.exchange(false)) return;
  for (const auto& [peer, side] : window->sides)
    answer(window, peer);
}

// Looks whether there is something to say about what the peer asked for; if not, the next publication looks
// again.
void Exchange::answer(const std::shared_ptr<NetWindow>& window, int peer) {
  Side& side = window->sides.at(peer);
  if (side.asked == kNothing || side.number == 0 || side.queued) return;
  window->curious.store(true);
  const Control& control = window->own.control;
  if (control.board().newest.load() < side.asked) return;
  if (latest(*window)) {
    side.queued = true;
    jobs_[peer].push_back({window, side.asked});
    pump(peer);
    return;
  }
  const Word asked = std::exchange(side.asked, kNothing);
  const int slot = control.slot_of(asked);
  const bool named = control.named(slot, peer);
  const bool there = control.slot(slot).version.load() == asked;
  if (there && named) return;  // it is on its way
  post_.tell(peer, {.kind = there ? Kind::unnamed : Kind::missed, .window = side.number, .word = asked});
}

void Exchange::pump(int peer) {
  std::deque<Job>& jobs = jobs_[peer];
  while (!jobs.empty() && post_.has_room(peer)) {
    const Job job = std::move(jobs.front());
    jobs.pop_front();
    if (latest(*job.window)) {
      start_latest(peer, job);
    } else {
      start(peer, job);
    }
    drop_if_done(job.window);
  }
}

void Exchange::start(int peer, const Job& job) {
  // The slot of a version that its reader gave up may be in use again.
  if (job.window->sides.at(peer).past < job.word) send(peer, job, job.word, false);
}

void Exchange::start_latest(int peer, const Job& job) {
  Side& side = job.window->sides.at(peer);
  side.queued = false;
  // Pinned in the reader's name while the network reads the slot.
  // Where it is withdrawn for a moment, its coming back or the next publication will ask who is curious.
  job.window->curious.store(true);
  const auto v = protocol::ReaderPort(job.window->own.control, peer).try_newest(job.word - 1);
  if (!v) return;
  side.asked = kNothing;
  send(peer, job, *v, true);
}

void Exchange::send(int peer, const Job& job, Word v, bool pinned) {
  const std::shared_ptr<NetWindow>& window = job.window;
  Side& side = window->sides.at(peer);
  const Header header = protocol::ReaderPort(window->own.control, peer).header(v);
  const auto index = static_cast<std::size_t>(window->own.control.slot_of(v));
  const protocol::Slot& slot = window->own.control.slot(static_cast<int>(index));
  const std::byte* payload =
      window->own.payload + index * protocol::slot_stride(window->own.control.head()) + header.offset;
  const DataHeader message{.envelope = {.kind = Kind::data, .window = side.number, .word = v},
                           .previous = std::exchange(side.sent, v),
                           .whole_bytes = slot.bytes.load(std::memory_order_relaxed),
                           .part_offset = header.offset,
                           .part_bytes = header.bytes,
                           .weight = header.weight,
                           .published = header.published.time_since_epoch().count(),
                           .codec = header.codec};
  side.in_flight.push_back(v);
  if (pinned) context_.record(peer, [&](PeerLedger& line) { line.bytes_offered += header.bytes; });
  post_.send(peer, message, {payload, header.bytes},
             [this, peer, window, v, pinned](bool) { finish_send(peer, *window, v, pinned); });
}

void Exchange::finish_send(int peer, NetWindow& window, Word v, bool pinned) {
  Side& side = window.sides.at(peer);
  side.in_flight.erase(std::find(side.in_flight.begin(), side.in_flight.end(), v));
  if (pinned) {
    protocol::ReaderPort(window.own.control, peer).unpin();
    mapped::notify(window.own.control.board().freed);
  } else {
    show_past(window, peer);
  }
  if (const auto found = windows_.find(window.number); found != windows_.end())
    drop_if_done(std::shared_ptr(found->second));
}

// The reader's word as the writer may act on it: not past what the network still reads.
void Exchange::show_past(NetWindow& window, int peer) {
  const Side& side = window.sides.at(peer);
  Word past = side.past;
  for (Word v : side.in_flight)
    past = std::min(past, v - 1);
  std::atomic<Word>& word = window.own.control.reader(peer).past;
  if (past <= word.load(std::memory_order_relaxed)) return;
  word.store(past);
  mapped::notify(window.own.control.board().freed);
}

// --- this worker reads ---

void Exchange::freed(NetWindow& window, int writer) {
  Side& side = window.sides.at(writer);
  side.mirror.collect();
  const Word past = side.mirror.past();
  const bool tells = !latest(window) || past == protocol::kEverything;
  if (!tells || past <= side.told || side.number == 0) return;
  side.told = past;
  post_.tell(writer, {.kind = Kind::past, .window = side.number, .word = past});
}

void Exchange::wanted(NetWindow& window, int writer, Word v) {
  Side& side = window.sides.at(writer);
  if (!latest(window)) return ask(window, writer, v);
  side.wanted = v;
  if (!side.asking && !side.mirror.has(v)) ask(window, writer, v);
}

void Exchange::ask(NetWindow& window, int peer, Word v) {
  Side& side = window.sides.at(peer);
  side.asking = true;
  post_.tell(peer, {.kind = Kind::ask, .window = side.number, .word = v});
}

std::string Exchange::take(int from, const Message& message, Delivery& delivery,
                           std::function<void()> handled) {
  const Envelope& envelope = message.envelope;
  const auto found = windows_.find(envelope.window);
  // It may have been closed before the peer knew.
  const std::shared_ptr<NetWindow> window = found == windows_.end() ? nullptr : found->second;
  const bool shared = window != nullptr && window->sides.contains(from);
  if (envelope.kind == Kind::data) {
    if (!shared) {
      handled();
      return window != nullptr ? "data for a window that it does not share" : std::string();
    }
    if (!window->sides.at(from).mirror.plausible(message.data, delivery.bytes())) {
      handled();
      return cat("an impossible version of window ", window->name);
    }
    take_data(from, window, message.data, delivery, std::move(handled));
    return {};
  }
  if (window == nullptr) return {};
  if (!shared) return "words about a window that it does not share";
  Side& side = window->sides.at(from);
  switch (envelope.kind) {
    case Kind::past:
      side.past = std::max(side.past, envelope.word);
      show_past(*window, from);
      return {};
    case Kind::ask:
      if (envelope.word == kNothing) return "a question about nothing";
      side.asked = envelope.word;
      answer(window, from);
      return {};
    case Kind::missed:
    case Kind::unnamed:
      if (envelope.word == kNothing || latest(*window)) return "an answer to nothing";
      side.mirror.note_absent(envelope.word, envelope.kind);
      return {};
    case Kind::data:
    case Kind::greet:
      break;
  }
  return cat("a message of unknown kind ", static_cast<std::uint32_t>(envelope.kind));
}

void Exchange::take_data(int from, const std::shared_ptr<NetWindow>& window, const DataHeader& header,
                         Delivery& delivery, std::function<void()> handled) {
  Side& side = window->sides.at(from);
  const Word v = header.envelope.word;
  std::byte* const place = side.mirror.place(header);
  if (place == nullptr) return handled();
  delivery.copy_to(place);
  const bool whole = side.mirror.filled(v, delivery.bytes());
  handled();
  if (!whole || !latest(*window)) return;
  side.asking = false;
  if (side.wanted > v && !side.mirror.has(side.wanted)) ask(*window, from, side.wanted);
}

bool Exchange::idle(int peer) const {
  const auto jobs = jobs_.find(peer);
  return jobs == jobs_.end() || jobs->second.empty();
}

void Exchange::forget(int peer) {
  const std::deque<Job> jobs = std::move(jobs_[peer]);
  jobs_.erase(peer);
  for (const Job& job : jobs)
    drop_if_done(job.window);
}

}  // namespace kith::comm::ucx
