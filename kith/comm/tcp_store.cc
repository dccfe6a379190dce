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
using tcp_store::Status;

}  // namespace

TcpStore::TcpStore(TcpStoreOptions options, Deadline deadline) : options_(std::move(options)) {
  idle_.push_back(connect(deadline));
}

net::Connection TcpStore::connect(Deadline deadline) const {
  net::Connection connection =
      net::connect({.to = options_.server, .interface = options_.interface, .log = options_.log}, deadline);
  net::authenticate(connection, options_.secret, net::Side::client, deadline);
  return connection;
}

std::optional<std::string> TcpStore::ask(const std::string& request, Deadline deadline) {
  std::optional<net::Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  std::string answer;
  try {
    if (!connection) connection = connect(deadline);
    connection->send(request, deadline);
    answer = connection->await(deadline);
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw Error(cat("lost: ", error.what()), cat("store at ", net::text_of(options_.server)),
                "worker 0 holds it: see how that one ended");
  }
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(*connection));
  }
  const std::string_view rest = std::string_view(answer).substr(std::min<std::size_t>(1, answer.size()));
  if (answer.starts_with(static_cast<char>(Status::value))) return std::string(rest);
  if (answer.starts_with(static_cast<char>(Status::nothing))) return std::nullopt;
  throw Error(rest);
}

void TcpStore::set(std::string_view key, std::string_view value) {
  ask(encode({Operation::set, std::string(key), std::string(value)}),
      SteadyClock().now() + options_.patience);
}

std::optional<std::string> TcpStore::get(std::string_view key) {
  return ask(encode({Operation::get, std::string(key), {}}), SteadyClock().now() + options_.patience);
}

std::optional<std::string> TcpStore::wait(std::string_view key, Deadline deadline) {
  // The server waits. It is asked again now and then, for a deadline may be years away.
  constexpr Clock::Duration kTurn = std::chrono::hours(1);
  for (;;) {
    const Clock::Time now = SteadyClock().now();
    const Clock::Duration turn = std::clamp<Clock::Duration>(deadline - now, Clock::Duration(0), kTurn);
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(turn).count();
    auto value = ask(encode({Operation::wait, std::string(key), std::to_string(milliseconds)}),
                     now + turn + options_.patience);
    if (value || SteadyClock().now() >= deadline) return value;
  }
}

std::int64_t TcpStore::add(std::string_view key, std::int64_t delta) {
  const auto sum = ask(encode({Operation::add, std::string(key), std::to_string(delta)}),
                       SteadyClock().now() + options_.patience);
  return parse_counter(key, sum.value_or(""));
}

std::string TcpStore::set_once(std::string_view key, std::string_view value) {
  return ask(encode({Operation::set_once, std::string(key), std::string(value)}),
             SteadyClock().now() + options_.patience)
      .value_or("");
}

}  // namespace kith::comm
