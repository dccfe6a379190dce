#include "tests/replay/checked_window.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "kith/base/text.h"
#include "tests/replay/scheduler.h"

namespace kith::replay {

void CheckedWindow::point(std::string_view verb) {
  lost_by_then_ = world_->lost_to(self_);
  Scheduler::current()->point(Point::window, cat(verb, " in ", options().name));
}

void CheckedWindow::fail(std::string_view what, WorkerId peer, Version v) const {
  Scheduler::current()->fail(
      cat("worker ", self_, " ", what, ": version ", v, " of ", peer, " in ", options().name));
}

std::variant<std::span<std::byte>, comm::Late> CheckedWindow::begin(Version v, Deadline deadline) {
  lost_before_ = lost_by_then_;
  point("begin");
  return inner_->begin(v, deadline);
}

void CheckedWindow::publish(Version v, const comm::PublishOptions& options) {
  point("publish");
  Records::Publication publication;
  const std::span<const std::byte> payload = inner_->slot(v).first(options.bytes);
  publication.payload.assign(payload.begin(), payload.end());
  publication.weight = options.weight;
  for (const WorkerId reader : options.readers)
    publication.readers.insert(reader.value);
  publication.known_lost = lost_before_;
  publication.known_lost_at = world_->lost_to(self_);
  world_->records().add(this->options().name, self_, v, std::move(publication));
  inner_->publish(v, options);
  point("published");
}

comm::Outcome CheckedWindow::await(WorkerId peer, Version v, Deadline deadline) {
  point("await");
  comm::Outcome outcome = inner_->await(peer, v, deadline);
  auto* const arrival = std::get_if<comm::Arrival>(&outcome);
  if (arrival == nullptr) {
    check_missing(outcome, peer, v, deadline);
    return outcome;
  }
  if (arrival->header().version != v) fail("got another version", peer, arrival->header().version);
  Records::Publication* const published = world_->records().find(options().name, peer.value, v);
  if (published != nullptr && world_->dropped(peer.value, self_, published->number)) {
    arrival->release();
    return never_comes(peer, v, deadline);
  }
  return checked(std::move(*arrival), true);
}

comm::Outcome CheckedWindow::newest(WorkerId peer, std::optional<Version> after, Deadline deadline) {
  point("newest");
  comm::Outcome outcome = inner_->newest(peer, after, deadline);
  auto* const arrival = std::get_if<comm::Arrival>(&outcome);
  return arrival == nullptr ? std::move(outcome) : checked(std::move(*arrival), false);
}

void CheckedWindow::skip(WorkerId peer, Version v) {
  point("skip");
  inner_->skip(peer, v);
}

void CheckedWindow::release(WorkerId peer, Version version) {
  point("release");
  const auto held = held_.find({peer, version});
  check_contents(held->second.header(), held->second.data(), peer, "while it was held");
  held_.erase(held);
  point("released");
}

comm::Outcome CheckedWindow::checked(comm::Arrival arrival, bool scheduled) {
  const comm::Header header = arrival.header();
  const std::span<const std::byte> data = arrival.data();
  const WorkerId peer = arrival.peer();
  check_contents(header, data, peer, "as it came");
  Records::Publication& published = *world_->records().find(options().name, peer.value, header.version);
  if (header.weight != published.weight) fail("got another weight", peer, header.version);
  if (scheduled && !published.readers.contains(self_)) fail("was not named", peer, header.version);
  published.taken.insert(self_);
  world_->took(peer.value, self_, published.number);
  held_.insert_or_assign({peer, header.version}, std::move(arrival));
  point("arrived");
  return comm::Arrival(this, peer, header, data);
}

void CheckedWindow::check_contents(const comm::Header& header, std::span<const std::byte> data, WorkerId peer,
                                   std::string_view when) const {
  const Records::Publication* const published =
      world_->records().find(options().name, peer.value, header.version);
  if (published == nullptr) fail("got what was not published", peer, header.version);
  const bool fits = header.offset + header.bytes <= published->payload.size() && data.size() == header.bytes;
  if (!fits || !std::equal(data.begin(), data.end(),
                           published->payload.begin() + static_cast<std::ptrdiff_t>(header.offset)))
    fail(cat("read other bytes than were published, ", when), peer, header.version);
}

void CheckedWindow::check_missing(const comm::Outcome& outcome, WorkerId peer, Version v,
                                  Deadline deadline) const {
  const Scheduler& scheduler = *Scheduler::current();
  const bool dead = scheduler.dead(peer.value);
  if (std::holds_alternative<comm::Lost>(outcome)) {
    if (!dead) fail("was told of a loss, and the worker lives", peer, v);
    if (world_->records().find(options().name, peer.value, v) != nullptr)
      fail("did not get what was published before the loss", peer, v);
    return;
  }
  if (cancelled() || world_->records().later_exists(options().name, peer.value, v)) return;
  if (scheduler.now() < deadline) fail("gave up before the deadline", peer, v);
  if (!world_->options().slow) fail(dead ? "did not hear of a loss" : "is kept waiting by somebody", peer, v);
}

comm::Outcome CheckedWindow::never_comes(WorkerId peer, Version v, Deadline deadline) {
  const Clock::Time begin = SteadyClock().now();
  while (true) {
    const Clock::Time now = SteadyClock().now();
    if (world_->lost_to(self_).contains(peer.value)) return comm::Lost{peer};
    if (now >= deadline || cancelled()) return comm::Late{peer, v, now - begin};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace kith::replay
