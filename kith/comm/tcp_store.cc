#include "kith/comm/tcp_store.h"

#include <algorithm>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/counter_text.h"
#include "kith/comm/net/handshake.h"
#include "kith/comm/tcp_store_message.h"

namespace kith::comm {
namespace {

using tcp_store::encode;
using tcp_store::Operation;
using tcp_store::Request;
using tcp_store::Status;

}  // namespace

TcpStore::TcpStore(TcpStoreOptions options, Deadline deadline) : options_(std::move(options)) {
  idle_.push_back(connect(Attempt::first, deadline));
}

net::Connection TcpStore::connect(Attempt attempt, const net::Limit& limit) const {
  net::Connection connection =
      net::connect_proven({.to = options_.server,
                           .interface = options_.interface,
                           .retry = attempt == Attempt::first ? net::Retry::until_limit : net::Retry::never,
                           .log = options_.log},
                          options_.secret, limit);
  connection.lose_after(kSilence);
  return connection;
}

net::Connection TcpStore::idle_or_new(const net::Limit& limit) {
  {
    const std::lock_guard lock(mutex_);
    if (!lost_.empty()) throw Error(lost_);
    if (!idle_.empty()) {
      net::Connection connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  return connect(Attempt::later, limit);
}

std::optional<std::string> TcpStore::ask(const std::string& request, const net::Limit& limit) {
  std::optional<net::Connection> connection;
  std::optional<tcp_store::Answer> parsed;
  try {
    connection.emplace(idle_or_new(limit));
    connection->send(request, limit);
    parsed = tcp_store::parse_answer(connection->await(limit));
    if (!parsed) throw Error("its answer is malformed", connection->peer());
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    const std::lock_guard lock(mutex_);
    if (connection && connection->ended()) lost_ = error.what();
    throw Error(cat("lost: ", error.what()), cat("store at ", net::text_of(options_.server)),
                options_.remedy);
  }
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(*connection));
  }
  if (parsed->status == Status::nothing) return std::nullopt;
  if (parsed->status == Status::error) throw Error(parsed->text);
  return std::move(parsed->text);
}

void TcpStore::send_will(std::string_view key, std::string_view value, const net::Limit& limit) {
  will_->send(encode(Request{Operation::will, std::string(key), std::string(value)}), limit);
  will_->await(limit);
}

void TcpStore::leave_will(std::string_view list, std::string_view value) {
  const Deadline limit = SteadyClock().now() + options_.patience;
  if (!will_) will_.emplace(connect(Attempt::later, limit));
  send_will(list, value, limit);
}

void TcpStore::withdraw_will() {
  constexpr auto kMoment = std::chrono::seconds(1);
  try {
    if (will_) send_will({}, {}, SteadyClock().now() + kMoment);
  } catch (const Error&) {
    // A server that is lost, or stopped, has nobody to tell.
  }
  will_.reset();
}

std::optional<std::string> TcpStore::ask_soon(const std::string& request, const std::stop_token& stop) {
  std::optional<net::StopFile> file;
  if (stop.stop_possible()) file.emplace(stop);
  return ask(request, {SteadyClock().now() + options_.patience, file ? file->fd() : -1});
}

void TcpStore::set_for(std::string_view key, std::string_view value, std::stop_token stop) {
  ask_soon(encode(Request{Operation::set, std::string(key), std::string(value)}), stop);
}

std::optional<std::string> TcpStore::get_for(std::string_view key, std::stop_token stop) {
  return ask_soon(encode(Request{Operation::get, std::string(key)}), stop);
}

std::optional<std::string> TcpStore::wait_for(std::string_view key, Deadline deadline, std::stop_token stop) {
  std::optional<net::StopFile> file;
  if (stop.stop_possible()) file.emplace(stop);
  // The server waits. It is asked again now and then, for a deadline may be years away.
  constexpr Clock::Duration kTurn = std::chrono::hours(1);
  for (;;) {
    const Clock::Time now = SteadyClock().now();
    const Clock::Duration turn = std::clamp<Clock::Duration>(deadline - now, Clock::Duration(0), kTurn);
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(turn).count();
    std::optional<std::string> value;
    try {
      value =
          ask(encode(Request{.operation = Operation::wait, .key = std::string(key), .number = milliseconds}),
              {now + turn + options_.patience, file ? file->fd() : -1});
    } catch (const Error&) {
      // The connection on which the server would answer is closed, and with that it knows.
      if (stop.stop_requested()) return std::nullopt;
      throw;
    }
    if (value || SteadyClock().now() >= deadline) return value;
  }
}

std::int64_t TcpStore::add_for(std::string_view key, std::int64_t delta, std::stop_token stop) {
  const auto sum =
      ask_soon(encode(Request{.operation = Operation::add, .key = std::string(key), .number = delta}), stop);
  return parse_counter(key, sum.value_or(""));
}

std::string TcpStore::set_once_for(std::string_view key, std::string_view value, std::stop_token stop) {
  return ask_soon(encode(Request{Operation::set_once, std::string(key), std::string(value)}), stop)
      .value_or("");
}

}  // namespace kith::comm
