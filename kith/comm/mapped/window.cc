#include "kith/comm/mapped/window.h"

#include <algorithm>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/mapped/futex.h"
#include "kith/comm/mapped/wait_note.h"

namespace kith::comm::mapped {
namespace {

using protocol::to_version;
using protocol::to_word;
using protocol::Word;
using State = protocol::ReaderPort::State;

// How long a version of a mirrored peer may be awaited before its writer is asked whether it left it out.
// Longer than versions usually take, so that rounds do without the question.
constexpr Clock::Duration kAskAfter = std::chrono::milliseconds(50);

std::vector<int> indices(const std::vector<PeerBlock>& peers) {
  std::vector<int> all;
  for (const PeerBlock& peer : peers)
    all.push_back(peer.worker);
  return all;
}

void record_wait(PeerLedger& line, Clock::Duration waited) {
  line.waited += waited;
  line.longest_wait = std::max(line.longest_wait, waited);
}

}  // namespace

MappedWindow::MappedWindow(std::shared_ptr<Context> context, WindowOptions options, Block own,
                           std::vector<PeerBlock> peers, std::shared_ptr<Link> link)
    : context_(std::move(context)),
      options_(std::move(options)),
      own_(std::move(own)),
      link_(std::move(link)),
      writer_(own_.control, indices(peers)) {
  for (PeerBlock& peer : peers) {
    KITH_CHECK(link_ != nullptr || peer.block.staged == nullptr, "a mirror needs a link");
    peers_.try_emplace(peer.worker, peer.worker, std::move(peer.block), context_->self_index());
  }
  context_->liveness().add(this);
  if (options_.cancellation) options_.cancellation->add(this);
}

MappedWindow::~MappedWindow() {
  if (options_.cancellation) options_.cancellation->remove(this);
  context_->liveness().remove(this);
  for (auto& [index, peer] : peers_) {
    peer.port.leave();
    tell_freed(peer);
  }
}

std::span<std::byte> MappedWindow::slot(Version v) {
  const protocol::Control& control = own_.control;
  const auto index = static_cast<std::size_t>(control.slot_of(to_word(v)));
  return {own_.payload + index * protocol::slot_stride(control.head()), options_.bytes};
}

std::variant<std::span<std::byte>, Late> MappedWindow::begin(Version v, Deadline deadline) {
  const Word word = to_word(v);
  Liveness& liveness = context_->liveness();
  const auto held = writer_.try_begin(word, liveness);
  if (!held) return slot(v);

  WaitNote note(*context_, options_.name, v);
  Waiting waiting(own_.control.board().freed);
  int holder = *held;
  Clock::Duration charged{};
  // Charges the time since the last change of holder to whoever it was.
  const auto charge = [&] {
    const Clock::Duration waited = note.waited();
    if (holder >= 0) context_->record(holder, [&](PeerLedger& line) { line.held_up += waited - charged; });
    charged = waited;
    return waited;
  };
  for (;;) {
    const auto events = waiting.events();
    const auto found = writer_.try_begin(word, liveness);
    if (options_.mode == WindowMode::latest) {
      notify(own_.control.board().published);
      if (link_ != nullptr) link_->published(word, {});
    }
    if (!found || *found != holder) {
      charge();
      holder = found.value_or(-1);
    }
    if (!found) return slot(v);
    if (over(deadline)) return Late{context_->worker(holder), v, charge()};
    note.explain("is held up by", holder);
    waiting.sleep(events, note.wake_by(deadline));
  }
}

void MappedWindow::publish(Version v, const PublishOptions& options) {
  readers_.clear();
  if (options_.mode == WindowMode::scheduled) {
    for (WorkerId reader : options.readers)
      readers_.push_back(peer_of(reader, "names as reader").index);
  }
  writer_.publish(to_word(v), options, readers_);
  notify(own_.control.board().published);
  if (link_ != nullptr) link_->published(to_word(v), readers_);
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    context_->record(readers_[i], [&](PeerLedger& line) {
      ++line.versions_named;
      line.bytes_offered += options.ranges.empty() ? options.bytes : options.ranges[i].bytes;
    });
  }
}

template <class Attempt>
Outcome MappedWindow::read(Peer& peer, Version wanted, Deadline deadline, Attempt attempt) {
  WaitNote note(*context_, options_.name, wanted);
  Waiting waiting(peer.block.control.board().published);
  Deadline ask_at = Deadline::max();
  if (peer.mirrored())
    ask_at = SteadyClock().now() + (options_.mode == WindowMode::latest ? Clock::Duration(0) : kAskAfter);
  for (;;) {
    const auto events = waiting.events();
    if (ask_at <= SteadyClock().now()) {
      link_->wanted(peer.index, to_word(wanted));
      ask_at = Deadline::max();
    }
    // Asked first: what was published before the peer was lost is then seen below.
    const bool lost = context_->liveness().lost(peer.index);
    std::optional<Outcome> outcome = attempt();
    if (!outcome && lost) outcome = Lost{context_->worker(peer.index)};
    if (!outcome && over(deadline)) {
      outcome = Late{context_->worker(peer.index), wanted, note.waited()};
    }
    if (outcome) {
      context_->record(peer.index, [&](PeerLedger& line) { record_wait(line, note.waited()); });
      return std::move(*outcome);
    }
    note.explain("waits for", peer.index);
    waiting.sleep(events, std::min(note.wake_by(deadline), ask_at));
  }
}

Outcome MappedWindow::await(WorkerId peer_id, Version v, Deadline deadline) {
  KITH_CHECK(options_.mode == WindowMode::scheduled, "await is for scheduled windows; use newest");
  Peer& peer = peer_of(peer_id, "awaits");
  const Word word = to_word(v);
  step_to(peer, word);
  const auto attempt = [&]() -> std::optional<Outcome> {
    switch (peer.port.try_await(word)) {
      case State::ready:
        return arrive(peer, word);
      case State::missed:
        return Late{peer_id, v, {}};
      case State::pending:
        break;
    }
    return std::nullopt;
  };
  std::optional<Outcome> outcome = attempt();
  if (!outcome) outcome = read(peer, v, deadline, attempt);
  if (std::holds_alternative<Arrival>(*outcome)) return std::move(*outcome);

  peer.port.give_up(word);
  tell_freed(peer);
  const bool late = std::holds_alternative<Late>(*outcome);
  context_->record(peer.index, [&](PeerLedger& line) { ++(late ? line.late : line.lost); });
  return std::move(*outcome);
}

Outcome MappedWindow::newest(WorkerId peer_id, std::optional<Version> after, Deadline deadline) {
  KITH_CHECK(options_.mode == WindowMode::latest, "newest is for latest windows; use await");
  Peer& peer = peer_of(peer_id, "reads the newest of");
  KITH_CHECK(!peer.port.pinned(), "one arrival of a peer at a time in a latest window");
  const Word after_word = after ? to_word(*after) : protocol::kNothing;
  const auto attempt = [&]() -> std::optional<Outcome> {
    const auto word = peer.port.try_newest(after_word);
    if (word) return arrive(peer, *word);
    // An aim that failed may have held the writer up for a moment.
    if (!peer.mirrored()) tell_freed(peer);
    return std::nullopt;
  };
  std::optional<Outcome> outcome = attempt();
  if (!outcome) outcome = read(peer, to_version(after_word + 1), deadline, attempt);
  if (std::holds_alternative<Arrival>(*outcome)) return std::move(*outcome);

  const bool late = std::holds_alternative<Late>(*outcome);
  context_->record(peer.index, [&](PeerLedger& line) { ++(late ? line.late : line.lost); });
  return std::move(*outcome);
}

void MappedWindow::skip(WorkerId peer_id, Version v) {
  KITH_CHECK(options_.mode == WindowMode::scheduled, "nobody waits for a reader of a latest window");
  Peer& peer = peer_of(peer_id, "skips");
  step_to(peer, to_word(v));
  peer.port.give_up(to_word(v));
  tell_freed(peer);
}

void MappedWindow::release(WorkerId peer_id, Version version) {
  Peer& peer = peers_.at(context_->index_of(peer_id));
  if (options_.mode == WindowMode::scheduled) {
    peer.port.release(to_word(version));
  } else {
    peer.port.look_away(to_word(version));
  }
  tell_freed(peer);
}

void MappedWindow::tell_freed(const Peer& peer) {
  if (peer.mirrored()) {
    link_->freed(peer.index);
  } else {
    notify(peer.block.control.board().freed);
  }
}

void MappedWindow::on_lost(int worker) {
  const auto peer = peers_.find(worker);
  if (peer == peers_.end()) return;
  notify(peer->second.block.control.board().published);
  notify(own_.control.board().freed);
}

void MappedWindow::on_cancel() {
  for (const auto& [index, peer] : peers_)
    notify(peer.block.control.board().published);
  notify(own_.control.board().freed);
}

MappedWindow::Peer& MappedWindow::peer_of(WorkerId peer, std::string_view verb) {
  const int index = context_->index_of(peer);
  const auto found = peers_.find(index);
  KITH_CHECK(found != peers_.end(), cat(context_->self(), " ", verb, " ", peer,
                                        ", with whom it does not share window ", options_.name));
  return found->second;
}

void MappedWindow::step_to(Peer& peer, Word v) {
  KITH_CHECK(peer.last < v,
             cat(context_->self(), " awaits ", to_version(v), " of ", context_->worker(peer.index), " after ",
                 to_version(peer.last), " in window ", options_.name));
  peer.last = v;
}

Outcome MappedWindow::arrive(Peer& peer, Word v) {
  const protocol::Control& control = peer.block.control;
  const Header header = peer.port.header(v);
  const auto slot = static_cast<std::size_t>(control.slot_of(v));
  const std::byte* data =
      peer.mirrored() ? peer.block.staged[slot]
                      : peer.block.payload + slot * protocol::slot_stride(control.head()) + header.offset;
  context_->record(peer.index, [&](PeerLedger& line) {
    ++line.arrivals;
    line.bytes_read += header.bytes;
  });
  return Arrival(this, context_->worker(peer.index), header, {data, header.bytes});
}

void check_going_on(const WindowOptions& options, const std::string& place) {
  if (options.cancellation && options.cancellation->cancelled()) throw Error("it was cancelled", place);
}

WindowOptions checked(WindowOptions options, const Context& context) {
  const std::string place = cat("window '", options.name, "'");
  if (options.name.empty() || options.name.size() > 1000) {
    throw InputError(cat("a name of ", options.name.size(), " characters"), place, "use 1 to 1000");
  }
  const int least = options.mode == WindowMode::scheduled ? 2 : 3;
  if (options.slots < least || options.slots > 1024) {
    throw InputError(cat(options.slots, " slots"), place, cat("use ", least, " to 1024 in this mode"));
  }
  if (options.bytes > std::size_t{1} << 46) {
    throw InputError(cat(options.bytes, " bytes per slot"), place, "more than any machine has");
  }
  if (options.peers.empty()) options.peers = context.workers();
  std::sort(options.peers.begin(), options.peers.end());
  options.peers.erase(std::unique(options.peers.begin(), options.peers.end()), options.peers.end());
  std::erase(options.peers, context.self());
  for (WorkerId peer : options.peers) {
    if (context.index_of(peer) < 0) throw InputError(cat(peer, " is not a worker of this transport"), place);
  }
  return options;
}

}  // namespace kith::comm::mapped
