// The driver's meeting and parting, by its thread: how workers of different machines become acquainted, hear
// of windows, and leave.

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/sha256.h"
#include "kith/base/text.h"
#include "kith/comm/net/strangers.h"
#include "kith/comm/ucx/driver.h"
#include "kith/comm/ucx/lifeline_message.h"

namespace kith::comm::ucx {
namespace {

constexpr std::size_t kMostBytes = 64 << 10;  // of a message
constexpr std::size_t kMostStrangers = 256;
constexpr int kMostAccepts = 32;               // at a time, so that who is here is heard meanwhile
constexpr std::size_t kMostWindows = 1 << 16;  // announced by a peer and not opened here
constexpr Clock::Duration kStrangerTime = std::chrono::seconds(10);
constexpr Clock::Duration kDeafTime = std::chrono::seconds(1);  // when descriptors have run out

std::uint64_t random_token() {
  const std::string bytes = random_bytes(sizeof(std::uint64_t));
  std::uint64_t token = 0;
  std::memcpy(&token, bytes.data(), sizeof token);
  return token;
}

}  // namespace

Driver::Contact& Driver::contact(int index) {
  const auto found = contacts_.find(index);
  if (found != contacts_.end()) return found->second;
  return contacts_.try_emplace(index, context_->self_index(), random_token()).first->second;
}

void Driver::say(int index, std::string message) {
  Contact& contact = this->contact(index);
  if (contact.state == State::absent || contact.state == State::meeting) {
    contact.to_say.push_back(std::move(message));
  } else if (contact.peer.lifeline()) {
    write(index, message);
  }
}

void Driver::write(int index, std::string_view message) {
  try {
    contacts_.at(index).peer.lifeline()->connection().queue(message);
  } catch (const Error& e) {
    lose(index, cat("is lost: ", e.what()));
  }
}

std::string Driver::hello_for(int index) const {
  Hello hello;
  hello.worker = context_->self().value;
  hello.workers_digest = context_->workers_digest();
  hello.token = contacts_.at(index).peer.token();
  hello.lanes = static_cast<std::uint64_t>(options_.lanes);
  return encode(Greeting{hello, worker_->address()});
}

void Driver::adopt(int index, net::Connection connection) {
  Contact& contact = this->contact(index);
  contact.peer.lifeline().emplace(std::move(connection));
  contact.peer.lifeline()->connection().limit(kMostBytes);
  contact.state = State::meeting;
  write(index, hello_for(index));
}

void Driver::accept_all() {
  for (int i = 0; i < kMostAccepts; ++i) {
    std::optional<net::Connection> connection;
    try {
      connection = listener_.accept();
    } catch (const Error& e) {
      complain("new connections for a while", e.what());
      deaf_until_ = SteadyClock().now() + kDeafTime;
    }
    if (!connection) break;
    connection->limit(net::Handshake::kMostBytes);
    strangers_.push_back(
        {std::move(*connection), net::Handshake(net::Side::server, options_.secret), SteadyClock().now()});
  }
  std::erase_if(strangers_, [&](Stranger& stranger) {
    try {
      return admit(stranger);
    } catch (const std::exception& e) {
      complain(stranger.connection.peer(), e.what());
      return true;
    }
  });
  while (strangers_.size() > kMostStrangers) {
    std::vector<net::Stranger> seen;
    for (const Stranger& stranger : strangers_)
      seen.push_back({stranger.connection.peer(), stranger.handshake.begun()});
    const auto leaver = std::next(strangers_.begin(), static_cast<std::ptrdiff_t>(net::who_goes(seen)));
    complain(leaver->connection.peer(), "too many connections wait to prove themselves");
    strangers_.erase(leaver);
  }
}

bool Driver::admit(Stranger& stranger) {
  net::Connection& connection = stranger.connection;
  while (auto message = connection.receive()) {
    if (stranger.handshake.state() == net::Handshake::State::going) {
      const std::string answer = stranger.handshake.take(*message);
      if (!answer.empty()) connection.queue(answer);
      if (stranger.handshake.state() == net::Handshake::State::refused) {
        complain(connection.peer(), stranger.handshake.reason());
        return true;
      }
      if (stranger.handshake.state() == net::Handshake::State::done) connection.limit(kMostBytes);
      continue;
    }
    const auto words = parse_lifeline(*message);
    const auto* greeting = words ? std::get_if<Greeting>(&*words) : nullptr;
    const int index = greeting != nullptr ? context_->index_of(WorkerId{greeting->hello.worker}) : -1;
    const bool expected = index >= 0 && options_.elsewhere[static_cast<std::size_t>(index)];
    if (!expected || contact(index).state != State::absent) {
      complain(connection.peer(), "it says it is a worker that is not expected");
      return true;
    }
    adopt(index, std::move(connection));
    hear(index, *message);
    return true;
  }
  return connection.ended() || SteadyClock().now() - stranger.since > kStrangerTime;
}

std::string Driver::take_greeting(int index, const Greeting& greeting) {
  const Hello& hello = greeting.hello;
  if (hello.magic != protocol::kMagic)
    return cat("its magic is ", hello.magic, ", this worker's ", protocol::kMagic);
  const WorkerId peer = context_->worker(index);
  if (hello.protocol != protocol::kProtocol) {
    return cat(peer, " speaks protocol version ", hello.protocol, ", ", context_->self(), " version ",
               protocol::kProtocol);
  }
  if (hello.worker != peer.value || hello.workers_digest != context_->workers_digest())
    return cat(peer, " belongs to another list of workers than ", context_->self());
  if (hello.lanes < 1 || hello.lanes > Peer::kMostLanes) return cat("it opens ", hello.lanes, " lanes");
  Contact& contact = contacts_.at(index);
  contact.peer.meet(*worker_, {greeting.address, hello.token, static_cast<int>(hello.lanes)}, options_.lanes,
                    [&contact](std::string_view why) { contact.failure = why; });
  contact.state = State::met;
  for (std::string& waiting : std::exchange(contact.to_say, {}))
    say(index, std::move(waiting));
  return {};
}

void Driver::refuse(int index, const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    refusals_[static_cast<std::size_t>(index)] = why;
    changed_.notify_all();
  }
  lose(index, cat("is refused: ", why));
}

void Driver::listen_to(int index) {
  Contact& contact = contacts_.at(index);
  if (!contact.peer.lifeline()) return;
  net::Connection& connection = contact.peer.lifeline()->connection();
  try {
    connection.flush();
    while (auto message = connection.receive()) {
      hear(index, *message);
      if (contact.state == State::dying) return;
    }
  } catch (const std::exception& e) {
    return lose(index, cat("is lost: ", e.what()));
  }
  if (!connection.ended() || contact.state == State::leaving) return;
  if (contact.parted) return lose(index, {});
  contact.state = State::leaving;
  contact.since = SteadyClock().now();
}

void Driver::hear(int index, std::string_view bytes) {
  Contact& contact = contacts_.at(index);
  const auto message = parse_lifeline(bytes);
  if (!message) return refuse(index, "it speaks of something unknown");
  if (contact.state == State::meeting) {
    std::string wrong = "its first words are no hello";
    try {
      if (const auto* greeting = std::get_if<Greeting>(&*message)) wrong = take_greeting(index, *greeting);
    } catch (const Error& e) {
      wrong = e.what();  // UCX finds no way to that peer
    }
    if (!wrong.empty()) refuse(index, wrong);
    return;
  }
  if (std::holds_alternative<Greeting>(*message)) return refuse(index, "it says hello twice");
  if (const auto* opened = std::get_if<WindowOpened>(&*message)) {
    std::unique_lock lock(mutex_);
    auto& from_peer = opened_[static_cast<std::size_t>(index)];
    if (from_peer.size() >= kMostWindows) {
      lock.unlock();
      return refuse(index, "it announces windows without end");
    }
    from_peer.emplace(opened->name, Opened{opened->head, opened->number});
    changed_.notify_all();
  }
  if (const auto* farewell = std::get_if<Farewell>(&*message)) {
    contact.farewell = farewell->stripes;
    contact.state = State::leaving;
    contact.since = SteadyClock().now();
    contact.parted = true;
  }
  if (std::holds_alternative<FarewellHeard>(*message)) contact.parted = true;
}

void Driver::tell_openers() {
  std::erase_if(opening_, [&](const Opening& opening) {
    for (const auto& [peer, side] : opening.window->sides) {
      const Contact& contact = contacts_.at(peer);
      if (contact.state == State::met && !contact.peer.open()) return false;
    }
    opening.open->set_value();
    return true;
  });
}

void Driver::say_farewells() {
  for (auto& [index, contact] : contacts_) {
    if (contact.state != State::met || contact.said_farewell) continue;
    if (!exchange_.idle(index) || contact.peer.busy()) continue;
    contact.said_farewell = true;
    say(index, encode(Farewell{contact.peer.sent()}));
  }
}

bool Driver::all_parted() const {
  return std::all_of(contacts_.begin(), contacts_.end(), [](const auto& entry) {
    const Contact& contact = entry.second;
    switch (contact.state) {
      case State::absent:
      case State::meeting:
      case State::gone:
        return true;
      case State::met:
      case State::leaving:
      case State::dying:
        return contact.parted && contact.state == State::met;
    }
    return true;
  });
}

}  // namespace kith::comm::ucx
