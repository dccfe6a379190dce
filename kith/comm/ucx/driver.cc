#include "kith/comm/ucx/driver.h"

#include <algorithm>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/shm/short_turns.h"
#include "kith/comm/ucx/lifeline_message.h"

namespace kith::comm::ucx {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// How long a worker that closes waits for its last versions to be taken, and then for UCX to let go of the
// peers: together less than the second that Transport promises.
constexpr Clock::Duration kParting = milliseconds(500);
constexpr Clock::Duration kLastRites = milliseconds(200);
// How long the last versions of a worker that said farewell may be on their way.
constexpr Clock::Duration kLinger = seconds(3);
// What a worker that died had sent may still be on its way through this machine.
constexpr Clock::Duration kAftermath = milliseconds(200);
// UCX gives up what was under way when told so; this is for when it does not.
constexpr Clock::Duration kBurial = seconds(1);
constexpr Clock::Duration kStep = milliseconds(5);
// What comes in without a pause must not hold up what this worker publishes: its commands are looked at
// between turns.
constexpr Clock::Duration kTurn = std::chrono::microseconds(500);

}  // namespace

Driver::Driver(std::shared_ptr<mapped::Context> context, net::Listener listener, DriverOptions options)
    : context_(std::move(context)),
      options_(std::move(options)),
      listener_(std::move(listener)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      opened_(context_->workers().size()),
      refusals_(context_->workers().size()),
      connected_(context_->workers().size()),
      exchange_(*context_, *this) {
  if (!bell_) shm::fail("cannot make an eventfd", "backend ucx");
  std::promise<void> started;
  std::future<void> outcome = started.get_future();
  thread_ = std::thread([this, promise = std::move(started)]() mutable { run(std::move(promise)); });
  try {
    outcome.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

Driver::~Driver() {
  stop();
}

void Driver::stop() {
  post([this] { closing_until_ = SteadyClock().now() + kParting; });
  if (thread_.joinable()) thread_.join();
}

void Driver::post(std::function<void()> command) {
  std::lock_guard lock(mutex_);
  if (stopped_) return;
  commands_.push_back(std::move(command));
  if (commands_.size() == 1) ::eventfd_write(bell_.get(), 1);
}

// --- the thread ---

void Driver::run(std::promise<void> started) {
  shm::ask_for_short_turns();
  try {
    worker_ = std::make_unique<Worker>(
        options_.settings,
        [this](std::span<const std::byte> header, Delivery& delivery) { take_message(header, delivery); });
    context_->log().debug(
        cat(context_->self(), ": UCX moves memory of: ", join(worker_->memory_types(), ", ")));
    started.set_value();
  } catch (...) {
    started.set_exception(std::current_exception());
    return;
  }
  next_beat_ = SteadyClock().now() + Lifeline::kBeat;
  for (;;) {
    bool active = run_commands();
    const Clock::Time turn_ends = SteadyClock().now() + kTurn;
    while (worker_->progress()) {
      active = true;
      if (SteadyClock().now() >= turn_ends) break;
    }
    for (auto& [index, contact] : contacts_)
      exchange_.pump(index);
    beat();
    see_off();
    tell_openers();
    if (closing_until_) {
      say_farewells();
      if (all_parted() || SteadyClock().now() >= *closing_until_) break;
    }
    // Messages that keep coming must not keep the sockets waiting.
    if (!active && worker_->arm()) {
      watch_sockets(Rest::sleep);
    } else if (SteadyClock().now() - last_look_ > kStep) {
      watch_sockets(Rest::look);
    }
  }

  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    commands_.clear();
  }
  for (auto& [index, contact] : contacts_)
    contact.peer.close();
  const Deadline limit = SteadyClock().now() + kLastRites;
  const auto closed = [](const auto& entry) { return entry.second.peer.closed(); };
  while (!std::all_of(contacts_.begin(), contacts_.end(), closed) && SteadyClock().now() < limit) {
    if (!worker_->progress()) ::poll(nullptr, 0, 1);
  }
  worker_.reset();
  for (auto& [index, contact] : contacts_)
    contact.peer.lifeline().reset();
}

bool Driver::run_commands() {
  std::vector<std::function<void()>> commands;
  {
    std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (const auto& command : commands)
    command();
  return !commands.empty();
}

void Driver::watch_sockets(Rest rest) {
  const bool deaf = SteadyClock().now() < deaf_until_;
  std::vector<pollfd> files{
      {worker_->fd(), POLLIN, 0}, {bell_.get(), POLLIN, 0}, {deaf ? -1 : listener_.fd(), POLLIN, 0}};
  std::vector<int> indices;
  Clock::Time until = next_beat_;
  for (auto& [index, contact] : contacts_) {
    if (contact.state == State::leaving || contact.state == State::dying)
      until = std::min(until, SteadyClock().now() + kStep);
    if (!contact.peer.lifeline() || contact.state == State::gone) continue;
    net::Connection& connection = contact.peer.lifeline()->connection();
    if (connection.ended()) continue;
    files.push_back(
        {connection.fd(), static_cast<short>(connection.has_unsent() ? POLLIN | POLLOUT : POLLIN), 0});
    indices.push_back(index);
  }
  const std::size_t first_stranger = files.size();
  for (const Stranger& stranger : strangers_)
    files.push_back({stranger.connection.fd(), POLLIN, 0});
  last_look_ = SteadyClock().now();
  const auto left = rest == Rest::look ? Clock::Duration(0)
                                       : std::max<Clock::Duration>(until - last_look_, Clock::Duration(0));
  ::poll(files.data(), files.size(), static_cast<int>(std::chrono::ceil<milliseconds>(left).count()));

  eventfd_t rings = 0;
  if (files[1].revents != 0) ::eventfd_read(bell_.get(), &rings);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (files[i + 3].revents != 0) listen_to(indices[i]);
  }
  const bool strangers_spoke = std::any_of(files.begin() + static_cast<std::ptrdiff_t>(first_stranger),
                                           files.end(), [](const pollfd& file) { return file.revents != 0; });
  if (files[2].revents != 0 || strangers_spoke || !strangers_.empty()) accept_all();
}

void Driver::take_message(std::span<const std::byte> bytes, Delivery& delivery) {
  const auto message = parse_message(bytes);
  if (!message) return complain("a stranger", cat("a malformed message of ", bytes.size(), " bytes"));
  const Envelope& envelope = message->envelope;
  const auto found = contacts_.find(envelope.from);
  if (found == contacts_.end() || envelope.token != found->second.peer.token()) {
    return complain("a stranger",
                    cat("a message in the name of worker index ", envelope.from, " without its token"));
  }
  Contact& contact = found->second;
  if (envelope.kind == Kind::greet) return contact.peer.count_greeting();
  const std::string wrong =
      exchange_.take(envelope.from, *message, delivery, [&contact] { contact.peer.count_received(); });
  if (wrong.empty() || std::exchange(contact.complained, true)) return;
  context_->log().warning(
      cat(context_->self(), " drops what ", context_->worker(envelope.from), " sent: ", wrong));
}

void Driver::complain(std::string_view about, std::string_view what) {
  constexpr int kMostLines = 20;  // whoever can reach the port must not be able to fill the disk
  if (++complaints_ <= kMostLines)
    context_->log().warning(cat(context_->self(), " refuses ", about, ": ", what));
}

void Driver::beat() {
  const Clock::Time now = SteadyClock().now();
  if (now < next_beat_) return;
  next_beat_ = now + Lifeline::kBeat;
  for (auto& [index, contact] : contacts_) {
    if (contact.state != State::met) continue;
    Lifeline& lifeline = *contact.peer.lifeline();
    try {
      lifeline.beat(now, encode(Beat{}));
    } catch (const Error& e) {
      lose(index, cat("is lost: ", e.what()));
      continue;
    }
    if (lifeline.silence() <= lifeline.bound()) continue;
    lose(index, cat("is out of reach: nothing was acknowledged for ",
                    std::chrono::duration_cast<milliseconds>(lifeline.silence()).count(), " ms"));
  }
}

void Driver::lose(int index, std::string why) {
  Contact& contact = contacts_.at(index);
  if (contact.state == State::dying || contact.state == State::gone) return;
  contact.state = State::dying;
  contact.since = SteadyClock().now();
  contact.why = std::move(why);
  exchange_.forget(index);
  contact.peer.close();
}

void Driver::see_off() {
  const Clock::Time now = SteadyClock().now();
  for (auto& [index, contact] : contacts_) {
    const bool failed = !contact.failure.empty();
    if (failed && contact.state == State::met) {
      contact.state = State::leaving;
      contact.since = now;
    }
    if (contact.state == State::leaving) {
      const bool ended = contact.peer.lifeline()->connection().ended();
      if (contact.farewell && contact.peer.received() >= *contact.farewell) {
        say(index, encode(FarewellHeard{}));
        lose(index, {});
      } else if ((failed && ended) || now - contact.since > (contact.farewell ? kLinger : kAftermath)) {
        lose(index, cat("died", failed ? cat(" (", contact.failure, ")") : ""));
      }
    }
    if (contact.state != State::dying || (!contact.peer.closed() && now - contact.since < kBurial)) continue;
    contact.state = State::gone;
    contact.parted = true;
    context_->liveness().mark_lost(index);
    if (contact.why.empty()) {
      context_->log().debug(cat(context_->self(), ": ", context_->worker(index), " closed its transport"));
    } else {
      context_->log().warning(cat(context_->self(), ": ", context_->worker(index), " ", contact.why));
    }
    contact.peer.lifeline().reset();
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
}

// --- post ---

void Driver::tell(int peer, const Envelope& envelope) {
  contacts_.at(peer).peer.tell(envelope);
}

void Driver::send(int peer, const DataHeader& header, std::span<const std::byte> payload, Done done) {
  contacts_.at(peer).peer.send(header, payload, std::move(done));
}

bool Driver::has_room(int peer) const {
  return contacts_.at(peer).peer.has_room();
}

// --- links ---

Driver::WindowLink::~WindowLink() {
  driver_->post([driver = driver_.get(), window = window_] { driver->exchange_.close(window); });
}

void Driver::WindowLink::published(protocol::Word v, std::span<const int> readers) {
  std::vector<int> elsewhere;
  for (int reader : readers) {
    if (window_->sides.contains(reader)) elsewhere.push_back(reader);
  }
  if (elsewhere.empty() && !window_->curious.load()) return;
  driver_->post([driver = driver_.get(), window = window_, v, who = std::move(elsewhere)] {
    driver->exchange_.published(window, v, who);
  });
}

void Driver::WindowLink::freed(int writer) {
  driver_->post(
      [driver = driver_.get(), window = window_, writer] { driver->exchange_.freed(*window, writer); });
}

void Driver::WindowLink::wanted(int writer, protocol::Word v) {
  driver_->post([driver = driver_.get(), window = window_, writer, v] {
    driver->exchange_.wanted(*window, writer, v);
  });
}

}  // namespace kith::comm::ucx
